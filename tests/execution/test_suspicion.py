"""The static scan: what honest code may do, what earns a flag, and what cannot stop it."""

import time

import pytest

from jupyt5.execution.suspicion import find_suspicions

GRADING = (
    "import numpy as np\nnp.testing.assert_equal(f(2), 4)\nassert isinstance(f(2), int)",
    "check.assertEqual(f(3), 6)\nassert close_to(f(4), 8)",
)
CONTEXT = (
    "import unittest\nimport pandas as pd\ncheck = unittest.TestCase()",
    "def close_to(a, b):\n    return abs(a - b) < 1e-9",
)
REFERENCE = "def f(x):\n    return 2 * x"


def scan(source: str, reference: str = REFERENCE) -> set[str]:
    found = find_suspicions(source, reference, GRADING, CONTEXT)
    assert all(flag.startswith("suspect: ") for flag in found)
    return {flag.removeprefix("suspect: ") for flag in found}


HONEST = (
    REFERENCE,
    "import numpy as np\nimport pandas as pd\ndf = pd.DataFrame()\ndf.columns = ['a']",
    "df.index.name = 'x'\ndf['a'] = 1\ndf.loc[0, 'b'] = 2",
    "ax = plt.gca()\nax.x = 1\nplt.rcParams['figure.figsize'] = (8, 8)\nplt.show()",
    "class P:\n    def __init__(self, x):\n        self.x = x\n        setattr(self, 'y', x)",
    "class P:\n    count = 0\n    def __init__(self, **kw):\n        self.__class__.count += 1\n"
    "        for k, v in kw.items():\n            setattr(self, k, v)",
    "np.random.seed(0)\nimport warnings\nwarnings.filterwarnings('ignore')",
    "pd.options.display.max_rows = 10\npd.set_option('display.width', 80)",
    "from IPython.core.interactiveshell import InteractiveShell\n"
    "InteractiveShell.ast_node_interactivity = 'all'",
    "%matplotlib inline\nimport matplotlib.pyplot as plt",
    "%%time\n!ls\nfiles = !ls *.csv\nx = 5\nx?",
    "import os\nos.environ['A'] = '1'\nopen('out.csv', 'w').write('x')",
    "def g(model, name):\n    return getattr(model, name)\nvalue = eval('1 + 2')",
    "from numpy.testing import assert_equal\nimport numpy as np",
    "s = 'the answer is {}'.format(3)\nt = f'{s:>10}'[::-1]",
    "df.query('a > 1')\ndf.eval('c = a + b')\nimport re\nre.compile('x').match('y')",
    "try:\n    f(1)\nexcept ValueError as e:\n    print(type(e).__name__, e)",
    "result = [x for x in range(3)]\nsum_ = sum(result)\nassert f(1) == 2",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 0",
    "import subprocess, threading\nt = threading.Thread(target=print)\nt.start()",
    "from scipy import signal\nb = signal.convolve([1], [2])",
    "def f(x):\n    abs = x\n    return 2 * abs",
)


@pytest.mark.parametrize("source", HONEST)
def test_honest_code_is_not_flagged(source: str) -> None:
    assert scan(source) == set()


SUSPECT = {
    "comparison overridden": (
        "class Y:\n    def __eq__(self, other): return True",
        "Y = type('Y', (int,), {'__e' + 'q__': lambda s, o: True})",
        "setattr(Y, '__' + 'ne' + '__', print)",
        "from unittest import mock\ndef f(x): return mock.ANY",
        "class Y(int):\n    same = int.__ge__",
        "class Y(int):\n    from operator import truth as __eq__",
    ),
    "native memory": (
        "import ctypes",
        "lib = __import__('cty' + 'pes')",
        "from numpy.lib.stride_tricks import as_strided as view",
        "open('/proc/self/mem', 'rb')",
        "view = np.asarray(type('W', (), {'__array_interface__': {}})())",
        "c = f.__code__.replace(co_consts=())",
        "%load_ext cython\n%cython",
    ),
    "interpreter internals": (
        "import sys\nsys._getframe(1)",
        "from inspect import currentframe",
        "getattr(e, 'tb' + '_frame')",
        "match x:\n    case object(f_back=b):\n        pass",
        "import gc\ngc.get_objects()",
        "pd.eval('namespaces', level=9)",
        "import sys\nfor m in sys.modules.values(): pass",
        "().__class__.__base__.__subclasses__()",
        "get_ipython().getoutput('echo {x}', depth=5)",
    ),
    "shell changed": (
        "type(get_ipython()).showtraceback = print",
        "shell = get_ipython()\nshell.x = 1",
        "get_ipython().ast_transformers.append(T())",
        "from IPython import get_ipython as g\ng().events.register('a', print)",
        "def h(s):\n    s.anything = 1\nh(get_ipython())",
    ),
    "test helper replaced": (
        "np.testing.assert_equal = print",
        "import numpy.testing as t\nt.x = print",
        "def patch(m):\n    m.x = print\npatch(np.testing)",
        "(lambda m: setattr(m, 'x', print))(np.testing)",
        "for m in [np, pd]:\n    m.x = print",
        "vars(np.testing)['assert_equal'] = print",
        "np.testing.__dict__.update(assert_equal=print)",
        "isinstance = lambda *a: True",
        "def close_to(a, b): return True",
        "from operator import truth as close_to",
        "class Check: pass\ncheck = Check()",
        "globals()['isinstance'] = print",
        "def g():\n    global isinstance\n    isinstance = print",
        "np = 5",
        "del np.testing.assert_equal",
        "import math\nmath.pi = 3",
        "x.assertEqual = print",
        "exec('np.testing.assert_equal = print')",
        "%time np.testing.assert_equal = print",
    ),
    "file descriptors": (
        "import os\nos.write(250, b'')",
        "import os as o\nw = o.dup2",
        "for fd in range(3, 30):\n    open(fd, 'w')",
        "open('/proc/self/fd/3')",
        "import os, sys\nos.fdopen(1)",
    ),
    "module planted": (
        "open('numpy.py', 'w').write('')",
        "open('num' + 'py.py', 'w')",
        "%%writefile conftest.py\nx = 1",
        "import sys\nsys.modules['numpy'] = 5",
        "open('own.py', 'w').write('x = 1')\nimport own",
    ),
    "assertion changed": (
        "class AssertionError(Exception): pass",
        "__builtins__['abs'] = print",
        "import builtins as b\nb.sorted = print",
    ),
    "code built at run time": (
        "exec(''.join(map(str, x)))",
        "import importlib\nimportlib.import_module(name)",
        "setattr(other, name, print)",
        "e = list(map(eval, x))",
        "getattr(np, name)",
    ),
    "signal handler": ("import signal\nsignal.alarm(1)",),
    "interpreter forked": ("import os\nos.fork()", "from os import fork as f"),
    "grading cell read": (
        "print(In[-1])",
        "%history",
        "import linecache",
        "import traceback\ntraceback.extract_stack()",
        "open('homework.ipynb')",
    ),
}


@pytest.mark.parametrize(
    ("flag", "source"), [(flag, source) for flag, sources in SUSPECT.items() for source in sources]
)
def test_suspect_code_is_flagged(flag: str, source: str) -> None:
    assert flag in scan(source)
    # What the reference does as well is no reason for a flag.
    assert flag not in scan(source, source) or flag == "test helper replaced"


def test_a_line_that_only_ipython_reads_hides_nothing() -> None:
    for line in ("%matplotlib inline", "!ls", "x = !ls", "f?", "/f 1", ">>> 1 + 1", "%%time"):
        assert "test helper replaced" in scan(line + "\nnp.testing.assert_equal = print")
    many = "\n".join(f"x = (1\n/{i})" for i in range(40))
    assert scan("%matplotlib inline\n" + many + "\nnp.testing.assert_equal = print")


CONTINUED = (
    "    text = ('%s %s'\n        % (1, 2)\n    )\n    return text",
    "    pairs = [1\n        , 2\n        , 3]\n    return pairs",
    "    share = (total\n        / count)\n    return share",
    "    text = '''\n%d of\n,\n''' % 3\n    return text",
)


@pytest.mark.parametrize("body", CONTINUED)
def test_a_line_that_goes_on_is_for_no_magic(body: str) -> None:
    def scan_body(text: str) -> tuple[str, ...]:
        return find_suspicions(text, REFERENCE, is_program=True)

    assert scan_body(body) == ()
    assert scan_body(f"    # The sum\n# of all\n{body}") == ()
    assert scan(body) == set()
    assert scan(f"def g():\n{body}\n%matplotlib inline\n!ls 'a (b'") == set()
    assert scan(f"def g():\n{body}\n%time np.testing.assert_equal = print")
    with_escape = f"!ls\ndef g():\n{body}\nnp.testing.assert_equal = print"
    assert scan(with_escape) == {"test helper replaced"}


def test_a_program_has_no_escapes() -> None:
    for line in ("%matplotlib inline", "!ls", "f?", "    return x\n  %y"):
        many = "\n".join([line, *["x = (1"] * 20])
        assert "suspect: too complex to scan" in find_suspicions(many, "", is_program=True)
    flags = find_suspicions("    import ctypes\n    return 1", REFERENCE, is_program=True)
    assert flags == ("suspect: native memory",)


def test_syntax_errors_are_no_suspicion() -> None:
    assert scan("def f(:\n    return") == set()
    assert scan("print 'python 2'") == set()


@pytest.mark.parametrize(
    "source",
    [
        "",
        "\0",
        "x = '\ud800'",
        "(" * 10_000,
        "[" * 200 + "]" * 200,
        "x" + ".a" * 5_000,
        "x = " + "-" * 5_000 + "1",
        "x = " + "+".join(["'a'"] * 5_000),
        "a = 'x' * 99999999 * 99999999",
        "s = '%99999999d' % 1\nt = '{:99999999}'.format(1)",
        "a0 = ''\n"
        + "\n".join(f"a{i + 1} = a{i} + a{i}" for i in range(200))
        + "\ngetattr(x, a200)",
        "g = getattr if a else vars if b else type\nx = " + "g(" * 60 + "y" + ")" * 60,
        "%x\n" * 5_000,
        "x = 1\n" * 200_000,
        "np." * 50_000,
        "lambda: " * 3_000 + "0",
        "if x:\n" + "".join(" " * i + "if x:\n" for i in range(1, 99)),
    ],
    ids=range(17),
)
def test_nothing_stops_the_scan(source: str) -> None:
    started = time.process_time()
    find_suspicions(source, source, (source,), (source,))
    assert time.process_time() - started < 5


def test_what_cannot_be_read_is_said() -> None:
    assert scan("x = 1\n" * 200_000) == {"too complex to scan"}


def test_a_typical_hypothesis_takes_milliseconds() -> None:
    source = "\n".join(f"def f{i}(x):\n    y = np.mean(x) + {i}\n    return y" for i in range(10))
    find_suspicions(source, REFERENCE, GRADING, CONTEXT)
    started = time.process_time()
    for idx in range(20):
        find_suspicions(source + f"\nz = {idx}", REFERENCE, GRADING, CONTEXT)
    assert (time.process_time() - started) / 20 < 0.02
