"""What a function needs of its project, and the problems made of it."""

import json
from pathlib import Path

import pytest

from jupyt5.errors import UsageError
from jupyt5_dsp.biocoder.build_functions import build_functions
from jupyt5_dsp.biocoder.insertion import MARKER
from jupyt5_dsp.biocoder.loader import load_problems
from jupyt5_dsp.biocoder.needs import Needs, Target, find_needs
from jupyt5_dsp.biocoder.project import read_project
from jupyt5_dsp.biocoder.prompts import make_prompt

FILES = {
    "src/lab/__init__.py": "from .tools import trim\n",
    "src/lab/tools.py": '''import re
from .tables import CODES, Base as Parent
try:
    import fast
except ImportError:
    fast = None
WIDTH = 60
DOUBLE = WIDTH * 2
OTHER = 1

def trim(text):
    """Cut."""
    return re.sub(" ", "", text)[:DOUBLE]

def wrap(text):
    return [trim(line) for line in text]

class Reader(Parent):
    """Reads."""
    kind = OTHER
    def __init__(self, path):
        self.path = path
    def rows(self):
        return wrap(self.load())
    def load(self):
        return open(self.path)
    def unused(self):
        return 0
    def translate(self, text: str) -> str:
        """Translate."""
        return "".join(CODES[one] for one in self.rows()) + self.shared()
''',
    "src/lab/tables.py": """START = "M"
CODES = {"ATG": START}
class Root:
    def deep(self):
        return START
class Base(Root):
    field = 1
    def shared(self):
        return self.deep()
    def apart(self):
        return 2
""",
    "src/lab/use.py": '''import os.path
import lab.tables as tb
import lab.tables
from lab import trim as cut
import numpy as np
from numpy import *

class Meter:
    def __init__(self, n): self.n = n
    def read(self): return self.n

def measure(name, start=os.path.sep):
    WIDTH = 2
    return cut(name), tb.CODES, lab.tables.START, Meter(WIDTH), np.sum([1])

def local():
    from .tools import wrap
    import json
    return json.dumps(wrap(""))

def idle():
    """Nothing."""

def again(n):
    return again(n - 1) if n else twin(n)

def twin(n):
    return again(n)
''',
    "src/lab/damaged.py": "def (:\n",
    "build/lib/copy.py": "def copied(): return 1\n",
    ".hidden/x.py": "def hidden(): return 1\n",
}


@pytest.fixture
def project_path(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def needs_of(project_path: Path, module: str, function: str, owner: str = "") -> Needs:
    project = read_project(project_path).project
    return find_needs(project, Target(project.modules[module], function, owner))


def test_modules_are_named_as_they_are_imported(project_path: Path) -> None:
    read = read_project(project_path)
    assert sorted(read.project.modules) == ["lab", "lab.tables", "lab.tools", "lab.use"]
    assert read.unreadable == ("src/lab/damaged.py",)


def test_global_variables_are_followed(project_path: Path) -> None:
    needs = needs_of(project_path, "lab.tools", "trim")
    assert needs.imports == ("import re",)
    assert set(needs.global_variables) == {"WIDTH = 60", "DOUBLE = WIDTH * 2"}
    assert needs.functions == needs.classes == ()


def test_a_member_brings_what_it_uses_of_its_class_and_its_bases(project_path: Path) -> None:
    needs = needs_of(project_path, "lab.tools", "translate", "Reader")
    own, base, root = sorted(needs.classes, key=lambda text: "Reader Base Root".find(text[6:10]))
    assert own.startswith("class Reader(Parent):")
    for word in ("kind = OTHER", "def __init__", "def rows", "def load"):
        assert word in own
    assert "unused" not in own
    assert "translate" not in own
    assert "def shared" in base
    assert "apart" not in base
    assert "def deep" in root
    assert set(needs.functions) == {
        "def wrap(text):\n    return [trim(line) for line in text]",
        'def trim(text):\n    """Cut."""\n    return re.sub(" ", "", text)[:DOUBLE]',
    }
    assert 'CODES = {"ATG": START}' in needs.global_variables
    assert "OTHER = 1" in needs.global_variables


def test_a_local_name_is_not_a_global_variable(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("X = 1\ndef f(y):\n    X = y\n    return X\n")
    assert needs_of(tmp_path, "a", "f").parts == ()


def test_what_super_has_is_looked_for_in_the_bases(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "class A:\n    def f(self): return 1\n    def g(self): return 2\n"
        "class B(A):\n    def f(self): return super().f()\n    def h(self): return self.f()\n"
    )
    (base,) = (text for text in needs_of(tmp_path, "a", "h", "B").classes if "class A" in text)
    assert "def f(self): return 1" in base
    assert "def g" not in base


def test_names_of_other_modules_are_followed(project_path: Path) -> None:
    needs = needs_of(project_path, "lab.use", "measure")
    assert "import os.path" in needs.imports
    assert "import numpy as np" in needs.imports
    assert "from lab import trim as cut" not in needs.imports
    assert any(text.startswith("def trim") for text in needs.functions)
    assert 'START = "M"' in needs.global_variables
    assert 'CODES = {"ATG": START}' in needs.global_variables
    # WIDTH is the function's own there, but DOUBLE in tools needs that module's.
    (meter,) = needs.classes
    assert meter.startswith("class Meter:")
    assert "def read(self):" in meter


def test_imports_inside_functions_are_followed(project_path: Path) -> None:
    needs = needs_of(project_path, "lab.use", "local")
    assert any(text.startswith("def wrap") for text in needs.functions)


def test_functions_that_call_each_other_end(project_path: Path) -> None:
    assert needs_of(project_path, "lab.use", "again").functions == (
        "def twin(n):\n    return again(n)",
    )


def test_imports_in_a_circle_and_long_chains_end(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from b import *\nfrom b import g\ndef f(): return g() + h()\n")
    (tmp_path / "b.py").write_text("from a import *\nfrom a import g\nimport a\n")
    chain = "".join(f"def c{idx}(): return c{idx + 1}()\n" for idx in range(1500))
    (tmp_path / "c.py").write_text(f"{chain}def c1500(): return 1\n")
    assert needs_of(tmp_path, "a", "f").parts == ()
    assert len(needs_of(tmp_path, "c", "c0").functions) == 1500


def test_build_writes_problems_that_can_be_read(project_path: Path, tmp_path: Path) -> None:
    found = build_functions(project_path, tmp_path / "out")
    assert found["left_out"] == {"empty body": 1}
    assert found["unreadable"] == ["src/lab/damaged.py"]
    problems = {
        problem.task_id: problem for problem in load_problems(tmp_path / "out" / "functions.jsonl")
    }
    assert len(problems) == found["num_functions"] == 16
    member = problems["src/lab/tools.py:Reader.translate"]
    assert member.golden.startswith("def translate(self, text: str) -> str:\n    ")
    assert member.signature == "def translate(self, text: str) -> str"
    assert (member.summary, member.class_name) == ("Translate.", "Reader")
    prompt = make_prompt(member, "necessary-only").text
    assert "CODES" in prompt
    assert "unused" not in prompt
    whole = make_prompt(member, "uncommented").text
    assert "def unused(self):" in whole
    assert "return 0" not in whole


def test_what_is_built_is_the_same_every_time(project_path: Path, tmp_path: Path) -> None:
    build_functions(project_path, tmp_path / "a")
    build_functions(project_path, tmp_path / "b")
    texts = [(tmp_path / name / "functions.jsonl").read_bytes() for name in "ab"]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "source",
    [
        "(" * 5000,
        "x = " + "-" * 100_000 + "1",
        "def f(:",
        "\0",
        "def f():\n" + "".join(f"{' ' * n}if x:\n" for n in range(1, 200)),
        "raise SystemExit(open('/tmp/ran', 'w'))",
        "f'{'*1000",
    ],
)
def test_hostile_sources_are_read_and_not_run(tmp_path: Path, source: str) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "bad.py").write_text(source)
    (tmp_path / "project" / "good.py").write_text("def f(x):\n    return x + 1\n")
    (tmp_path / "project" / "latin.py").write_bytes(b"# \xe9\ndef g(x):\n    return x\n")
    (tmp_path / "outside.py").write_text("def h(x):\n    return x\n")
    (tmp_path / "project" / "link.py").symlink_to(tmp_path / "outside.py")
    (tmp_path / "project" / "folder").symlink_to(tmp_path)
    found = build_functions(tmp_path / "project", tmp_path / "out")
    lines = (tmp_path / "out" / "functions.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["good.py:f", "latin.py:g"]
    assert found["num_functions"] == 2


def test_what_is_too_deep_is_left_out_and_hinders_no_other(tmp_path: Path) -> None:
    deep = "+".join(["1"] * 900)
    lines = "".join(f"    a = {number}\n" for number in range(12))
    source = (
        f"def g(a={deep}):\n{lines}    return a\n\n@f({deep})\ndef h(a):\n    return a\n\n"
        f"class A(B[{deep}], key={deep}):\n    def m(self) -> [{deep}]:\n        return 1\n\n"
        "    def n(self):\n        return g()\n\ndef near(x=...):\n    return g(A, x)\n"
    )
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "deep.py").write_text(source)
    (tmp_path / "project" / "good.py").write_text("def f(x):\n    return x + 1\n")
    found = build_functions(tmp_path / "project", tmp_path / "out")
    assert found["left_out"] == {"too deep": 3}
    path = tmp_path / "out" / "functions.jsonl"
    built = {one.task_id: one for one in load_problems(path)}
    assert list(built) == ["deep.py:A.n", "deep.py:near", "good.py:f"]
    assert "def g(a=...):" in make_prompt(built["deep.py:near"], "necessary-only").text
    # A file of problems may have such functions, too.
    row = {"id": "g", "golden": source.partition("\n\n@")[0], "context": source + MARKER}
    path.write_text(json.dumps(row))
    (problem,) = load_problems(path)
    assert problem.signature == "def g(a=...)"
    assert make_prompt(problem, "uncommented").text.endswith("def g(a=...):\n")


def test_a_folder_without_functions_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Python function"):
        build_functions(tmp_path, tmp_path / "out")
    with pytest.raises(UsageError, match="not a folder"):
        build_functions(tmp_path / "absent", tmp_path / "out")
    assert not (tmp_path / "out").exists()
