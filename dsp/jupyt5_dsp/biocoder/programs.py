"""From BioCoder problems to a problem set of the runner."""

import ast
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from jupyt5_dsp.biocoder.checker import OutputChecker, OutputTest
from jupyt5_dsp.biocoder.insertion import Slot, find_slot
from jupyt5_dsp.biocoder.markers import find_markers, make_input, replace_markers
from jupyt5_dsp.biocoder.prompts import make_prompt
from jupyt5_dsp.biocoder.records import BioProblem
from jupyt5_dsp.problems import Form, ProblemSet, Shown, digest
from jupyt5_dsp.programs import Program, make_cell, make_program_set

__all__ = ["FUNCTION_STOPS", "PROGRAM_STOPS", "list_modules", "make_set", "make_test"]

_DEFINED = re.compile(r"\b(?:def|class)\s+(\w+)")
NO_CONTEXT = "no test context"
_COMMENTED_OUT = "the insertion marker stands in a comment: no solution could take effect"
# What follows a function at the left margin.
FUNCTION_STOPS = ("\ndef ", "\nclass ", "\n@", "\nif __name__", "\nprint(", "\n```")
# What follows a program of functions: calls of ``main``, which the test program makes itself.
PROGRAM_STOPS = ("\nif __name__", "\nmain(", "\nprint(main(", "\n```")


def make_set(
    problems: Iterable[BioProblem],
    tests: Mapping[str, OutputTest],
    *,
    form: str,
    budget_tokens: int,
    reasons: Mapping[str, str],
    stops: Sequence[str] = FUNCTION_STOPS,
    corrects: bool = False,
) -> ProblemSet:
    """Return problems with their prompts and tests.

    Args:
        problems: All of them.
        tests: Of those that can be executed, by task id.
        form: Of the prompts.
        budget_tokens: Of each prompt.
        reasons: Why others cannot be executed, by task id.
        stops: Where generated text ends.
        corrects: Whether completions are repaired before they are run.

    Raises:
        UsageError: If there is no such form for a language.
        ProblemSetError: If there are no problems.
    """
    return make_program_set(
        (
            _make_program(
                problem,
                tests.get(problem.task_id),
                reasons.get(problem.task_id, ""),
                form=form,
                budget_tokens=budget_tokens,
            )
            for problem in problems
        ),
        runs_as="script",
        stops=stops,
        checker=OutputChecker(tests, corrects=corrects),
    )


def make_test(problem: BioProblem, *, num_inputs: int, seed: int) -> OutputTest | str:
    """Return a problem's test, or why it has none.

    Args:
        problem: Any.
        num_inputs: Generated for programs with markers; others run once.
        seed: Of the inputs.

    Raises:
        ProblemSetError: If a marker of the test program is unknown.
    """
    if not problem.context or problem.language != "python":
        return NO_CONTEXT
    markers = find_markers(problem.context, problem.task_id)
    slot = find_slot(replace_markers(problem.context, markers), problem.task_id)
    if slot.is_comment:
        return _COMMENTED_OUT
    inputs = tuple(
        make_input(markers, seed=seed, task_id=problem.task_id, input_idx=idx)
        for idx in range(num_inputs if markers else 1)
    )
    return OutputTest(problem=problem, slot=slot, inputs=inputs)


def list_modules(slot: Slot) -> tuple[str, ...]:
    """Return the installed packages' modules that a test program imports at its top, sorted."""
    try:
        tree = ast.parse(slot.insert("pass"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return tuple(
        sorted(name for name in found if name.partition(".")[0] not in sys.stdlib_module_names)
    )


def _find_names(source: str) -> frozenset[str]:
    """Return functions and classes; in texts that are no Python and in comments, too."""
    return frozenset(_DEFINED.findall(source))


def _make_program(
    problem: BioProblem, test: OutputTest | None, reason: str, *, form: str, budget_tokens: int
) -> Program:
    prompt = make_prompt(problem, form, budget_tokens=budget_tokens)
    preload = list_modules(test.slot) if test else ()
    # Without its last line break: tokenizers join one with the indentation that follows it, and a
    # model that is given the break alone ends its answer there.
    prefix = prompt.text.rstrip("\n")
    return Program(
        task_id=problem.task_id,
        form=Form(
            reference=problem.golden,
            preload=preload,
            defines=_find_names(test.slot.before + test.slot.after) if test else frozenset(),
            answers=_find_names(problem.golden),
        ),
        # Equal tests are one distinct problem: the cell names the test that the checker makes.
        grading=f"pass  # {digest(test.describe() if test else [problem.task_id])[:16]}",
        shown=Shown(
            cells=(make_cell("code", prefix),),
            target_idx=0,
            prefix=prefix,
            function=problem.function if problem.language == "python" else "",
            is_member=bool(test.slot.class_name if test else problem.class_name),
        ),
        invalid_reason=reason or prompt.exceeded,
    )
