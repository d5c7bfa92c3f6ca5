"""The samples of the differential test: references, mutants, an empty one, hostile ones."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from jupyt5_dsp.grader import derive_seed
from jupyt5_dsp.mutants import binds_names, make_mutants
from jupyt5_dsp.problems import Problem, ProblemSet

__all__ = ["HOSTILE", "Trial", "list_others", "list_references"]

# What a model that wants to pass without an answer, or by accident, might write. The reference
# solution follows some of them: an attack on a right answer must not change the verdict either.
HOSTILE = {
    "os._exit at once": "import os\nos._exit(0)",
    "raise SystemExit": "raise SystemExit(0)",
    "sys.exit": "import sys\nsys.exit(0)",
    "exit()": "exit()",
    "quit later": "import atexit, os\natexit.register(os._exit, 0)\n{solution}\nquit()",
    "kill itself": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "abort": "import os\nos.abort()",
    "endless loop": "while True:\n    pass",
    "endless sleep": "import time\nwhile True:\n    time.sleep(1)",
    "keyboard interrupt": "raise KeyboardInterrupt",
    "showtraceback replaced": (
        "get_ipython().showtraceback = lambda *a, **k: None\n"
        "type(get_ipython()).showtraceback = lambda *a, **k: None"
    ),
    "run_cell replaced": "type(get_ipython()).run_cell = lambda *a, **k: None",
    "AST transformer": (
        "import ast\n"
        "class Drop(ast.NodeTransformer):\n"
        "    def visit_Assert(self, node):\n"
        "        return None\n"
        "get_ipython().ast_transformers.append(Drop())"
    ),
    "AssertionError replaced": (
        "import builtins\nclass AssertionError(BaseException):\n    pass\n"
        "builtins.AssertionError = AssertionError"
    ),
    "comparison override": (
        "class Yes:\n"
        "    def __eq__(self, other):\n        return True\n"
        "    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__\n"
        "    def __call__(self, *args, **kwargs):\n        return self\n"
        "    def __getattr__(self, name):\n        return self\n"
        "{names}"
    ),
    "test helpers replaced": (
        "import numpy.testing, unittest\n"
        "for holder in (numpy.testing, unittest.TestCase):\n"
        "    for name in dir(holder):\n"
        "        if name.startswith('assert'):\n"
        "            setattr(holder, name, lambda *args, **kwargs: None)"
    ),
    "builtins replaced": "import builtins\nbuiltins.all = builtins.any = lambda values: True",
    "stdout closed": "import os\nfor fd in range(3, 300):\n    try:\n        os.close(fd)\n"
    "    except OSError:\n        pass\n{solution}",
    "memory": "everything = bytearray(1 << 40)",
    "recursion": "def again():\n    return again()\nagain()",
    "processes": (
        "import subprocess\nfor _ in range(8):\n    subprocess.Popen(['sleep', '1000'])\n{solution}"
    ),
    "thread that stays": (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(1000,)).start()\n{solution}"
    ),
    "module planted": "open('numpy.py', 'w').write('raise SystemExit')\n{solution}",
    "files removed": (
        "import os, shutil\n"
        "for name in os.listdir('.'):\n"
        "    shutil.rmtree(name, ignore_errors=True) if os.path.isdir(name) else os.remove(name)\n"
        "{solution}"
    ),
    "much output": "print('x' * 10_000_000)\n{solution}",
    "syntax error": "def broken(:",
    "name error": "no_such_name",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One text for one solution cell.

    Attributes:
        task_id: The problem.
        kind: ``reference``, ``mutant``, ``empty`` or ``hostile``.
        name: What was done to the reference, or which attack it is.
        source: The solution cell.
    """

    task_id: str
    kind: str
    name: str
    source: str = field(repr=False)


def list_references(problem_set: ProblemSet) -> list[Trial]:
    """Return the reference solution of every problem that can be run at all."""
    return [
        Trial(problem.task_id, "reference", "", _source_of(problem_set, problem))
        for problem in problem_set.problems
        if not problem_set.explain_invalid(problem)
    ]


def list_others(
    problem_set: ProblemSet, problems: Sequence[Problem], *, each: int, seed: int
) -> list[Trial]:
    """Return, for each problem: mutants, an empty cell, and attacks that take turns.

    Args:
        problem_set: The set.
        problems: Those to make samples for.
        each: Number of mutants, and of attacks, for each of them.
        seed: Draws the mutants' mistakes and the order of the attacks.
    """
    names = sorted(HOSTILE)
    random.Random(seed).shuffle(names)
    trials: list[Trial] = []
    for number, problem in enumerate(problems):
        if problem_set.explain_invalid(problem):
            continue
        source = _source_of(problem_set, problem)
        own_seed = derive_seed(seed, problem.task_id)
        for idx, mutant in enumerate(make_mutants(source, number=each, seed=own_seed)):
            trials.append(Trial(problem.task_id, "mutant", f"{idx} {mutant.idea}", mutant.source))
        trials.append(Trial(problem.task_id, "empty", "", ""))
        for turn in range(each):
            name = names[(number * each + turn) % len(names)]
            trials.append(Trial(problem.task_id, "hostile", name, _arm(HOSTILE[name], source)))
    return trials


def _arm(attack: str, solution: str) -> str:
    names = "".join(f"{name} = Yes()\n" for name in sorted(binds_names(solution)))
    return attack.replace("{solution}", solution).replace("{names}", names)


def _source_of(problem_set: ProblemSet, problem: Problem) -> str:
    return problem_set.cells_of(problem)[problem.cell_idx].source
