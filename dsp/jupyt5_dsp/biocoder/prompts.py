"""The five prompt forms of the BioCoder paper.

A prompt ends in the function's header, so a model goes on with the body. The published cut takes
lines from the end of the whole prompt, header and summary included; here only the surroundings
are cut, from their end, so that every form still asks for its function.
"""

import bisect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from jupyt5.errors import UsageError
from jupyt5_dsp.biocoder.insertion import find_slot
from jupyt5_dsp.biocoder.needs import Project, Target, find_needs, list_surroundings
from jupyt5_dsp.biocoder.records import BioProblem, end_signature
from jupyt5_dsp.biocoder.source import Module, read_module

__all__ = [
    "DEFAULT_BUDGET_TOKENS",
    "FORMS",
    "Prompt",
    "estimate_tokens",
    "list_necessary",
    "list_project_parts",
    "make_prompt",
]

FORMS = ("summary-only", "uncommented", "summary-bottom", "summary-top", "necessary-only")
DEFAULT_BUDGET_TOKENS = 8192 - 256 - 128  # the paper's: context, less answer, less tolerance

_BYTES_A_TOKEN = 3.5
_INSTRUCTION = "Task: complete the function at the end, with the help of the code described here."
_NO_COMMENTS = "Do not write comments."
_COMMENT_SIGNS = {"python": "#", "java": "//"}
_TEST_FUNCTION = "main"
_WORD = re.compile(r"\w+")
_NON_ASCII = re.compile(r"[^\x00-\x7f]")

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt and what was cut to make it fit.

    Attributes:
        text: Ends in the function's header and a line break.
        num_tokens: By the counter that was given.
        num_lines_cut: Lines of surroundings that did not fit.
        exceeded: ``token limit exceeded A > B`` if it is too long even without any; "" if it fits.
    """

    text: str = field(repr=False)
    num_tokens: int
    num_lines_cut: int = 0
    exceeded: str = ""


def make_prompt(
    problem: BioProblem,
    form: str,
    *,
    budget_tokens: int = DEFAULT_BUDGET_TOKENS,
    count_tokens: CountTokens | None = None,
) -> Prompt:
    """Make one prompt.

    Args:
        problem: The function to ask for.
        form: One of ``FORMS``.
        budget_tokens: Most tokens of the prompt.
        count_tokens: Of the model; None estimates them from the number of bytes.

    Raises:
        UsageError: If the form is unknown, or does not exist for the problem's language.
    """
    _check_form(form, problem.language)
    count = count_tokens or estimate_tokens
    lines = _list_lines(problem, form)

    def is_short(num_lines: int) -> bool:
        return count(_render(problem, form, lines[:num_lines])) <= budget_tokens

    # The most lines that fit: token counts grow with the text.
    kept = len(lines)
    if not is_short(kept):
        kept = max(
            bisect.bisect(range(kept), False, key=lambda number: not is_short(number)) - 1, 0
        )
    text = _render(problem, form, lines[:kept])
    num_tokens = count(text)
    too_long = num_tokens > budget_tokens
    exceeded = f"token limit exceeded {num_tokens} > {budget_tokens}" if too_long else ""
    return Prompt(text, num_tokens, len(lines) - kept, exceeded)


def _list_lines(problem: BioProblem, form: str) -> list[str]:
    """Return the surroundings of a form, line by line."""
    if form == "summary-only":
        return []
    needed_only = form == "necessary-only"
    parts = list_necessary(problem) if needed_only else list_project_parts(problem)
    return [line for part in parts if part.strip() for line in part.split("\n")]


def list_project_parts(problem: BioProblem) -> tuple[str, ...]:
    """Return what a function's surroundings define, as code: the whole context of a prompt.

    Without parts of the project in the problem's file they are taken from the test program, less
    the function that runs the test. Nothing that the reference solution defines is in it.
    """
    if problem.surroundings or not problem.context:
        return _drop_answer(problem, problem.surroundings)
    module, target = _read_test_program(problem, "pass")
    return list_surroundings(module, target).parts if module and target else ()


def list_necessary(problem: BioProblem) -> tuple[str, ...]:
    """Return only the parts of the surroundings that the reference solution needs."""
    if problem.necessary:
        return _drop_answer(problem, problem.necessary)
    if problem.language == "java":
        return _select_java(problem)
    if not problem.context:
        return ()
    module, target = _read_test_program(problem, problem.golden)
    shown, _ = _read_test_program(problem, "pass")
    if not (module and target and shown and target.is_there):
        return ()
    # The reference's own imports are part of the answer.
    module = replace(module, imports=shown.imports)
    target = replace(target, module=module)
    return find_needs(Project({module.name: module}), target).parts


def estimate_tokens(text: str) -> int:
    """Return the number of tokens as the corpus estimates it: one for each 3.5 bytes."""
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_A_TOKEN)


def _check_form(form: str, language: str) -> None:
    if form not in FORMS:
        message = f"Prompt form {form!r} is unknown. Choose one of: {', '.join(FORMS)}."
        raise UsageError(message)
    if form == "summary-bottom" and language == "java":
        message = (
            "There is no summary-bottom prompt for Java, as in the paper. "
            "Choose summary-top or uncommented."
        )
        raise UsageError(message)


def _render(problem: BioProblem, form: str, lines: Sequence[str]) -> str:
    sign = _COMMENT_SIGNS[problem.language]
    summary = problem.summary.strip()
    header = end_signature(problem)
    code = "\n".join(lines)
    if form == "summary-only":
        blocks = [summary, header]
    elif form == "uncommented":
        blocks = [code, _comment(summary, sign), header]
    elif form == "summary-bottom":
        blocks = [_comment(code, sign), _comment(summary, sign), header]
    else:
        again = "" if problem.language == "java" else _comment(summary, sign)
        top = _comment(f"{_INSTRUCTION}\n{summary}".strip(), sign)
        blocks = [top, _comment(code, sign), again, header]
    text = "\n\n".join(block for block in blocks if block.strip()) + "\n"
    return _NON_ASCII.sub(" ", _ask_for_no_comments(text, sign))


def _comment(text: str, sign: str) -> str:
    return "\n".join(f"{sign} {line}".rstrip() for line in text.split("\n")) if text else ""


def _ask_for_no_comments(text: str, sign: str) -> str:
    """Put the request before the first comment line, if there is one."""
    lines = text.split("\n")
    first = next((idx for idx, line in enumerate(lines) if line.startswith(sign)), None)
    if first is not None:
        lines.insert(first, f"{sign} {_NO_COMMENTS}")
    return "\n".join(lines)


def _read_test_program(problem: BioProblem, solution: str) -> tuple[Module | None, Target | None]:
    """Return the test program with a solution in it, without the test, and where that is."""
    slot = find_slot(problem.context, problem.task_id)
    module = read_module(_drop_markers(slot.insert(solution)), name="", path=problem.task_id)
    if module is None:
        return None, None
    module.definitions.pop(_TEST_FUNCTION, None)
    owner = slot.class_name if slot.class_name in module.definitions else ""
    return module, Target(module, problem.function, owner, _list_answer(problem))


def _list_answer(problem: BioProblem) -> frozenset[str]:
    """Return the names that the reference solution defines."""
    golden = read_module(problem.golden, name="", path=problem.task_id)
    return frozenset(golden.definitions if golden else ()) | {problem.function}


def _drop_answer(problem: BioProblem, parts: Sequence[str]) -> tuple[str, ...]:
    """Leave out parts of a project's file that define what the reference solution does."""
    if problem.language == "java" or problem.class_name:
        return tuple(parts)
    answer = _list_answer(problem)
    read = ((part, read_module(part, name="", path=problem.task_id)) for part in parts)
    return tuple(part for part, one in read if not one or answer.isdisjoint(one.definitions))


def _drop_markers(program: str) -> str:
    """Replace generated inputs by a constant; prompts do not show them."""
    return re.sub(r"<\|.*?\|>", "0", program, flags=re.DOTALL)


def _select_java(problem: BioProblem) -> tuple[str, ...]:
    """Return class skeletons and members whose names occur in the reference."""
    words = set(_WORD.findall(problem.golden))
    *skeletons, members = problem.surroundings or ("",)
    kept = [one for one in skeletons if _name_of_class(one) in words]
    named = [line for line in members.split("\n") if _name_of_member(line) in words]
    return (*kept, "\n".join(named))


def _name_of_class(skeleton: str) -> str:
    found = re.search(r"\b(?:class|interface|enum)\s+(\w+)", skeleton)
    return found[1] if found else ""


def _name_of_member(line: str) -> str:
    found = re.search(r"(\w+)\s*(?:\(|=|;)", line)
    return found[1] if found else ""
