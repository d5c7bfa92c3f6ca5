"""From a completion to the text that is inserted, and repairs that are made only on request.

The paper mentions correction mechanisms for slips of syntax and style without defining them; these
are our own. They are off by default, and a sample that was changed says so in its flags.
"""

import ast
import re
import textwrap
from dataclasses import dataclass, field

from jupyt5_dsp.biocoder.insertion import move_to_margin
from jupyt5_dsp.biocoder.records import BioProblem, end_signature
from jupyt5_dsp.members import list_members

__all__ = ["Corrected", "assemble", "correct"]

_FENCE = re.compile(r"```[A-Za-z0-9]*[ \t]*\n(.*?)(?:\n?```|\Z)", re.DOTALL)
_NON_ASCII = re.compile(r"[^\x00-\x7f]")
_MOST_CUTS = 200


@dataclass(frozen=True, slots=True)
class Corrected:
    """A solution after repairs; ``repairs`` names them."""

    solution: str = field(repr=False)
    repairs: tuple[str, ...]


def assemble(problem: BioProblem, completion: str, *, class_name: str = "") -> str:
    """Return the whole solution: the completion if it has the function, else header and body.

    A whole function may be indented as a body is; it comes back at the left margin, with all
    that stands before and after it. A member may come inside a class: then it is taken, with all
    its definitions, the methods that it uses and the test program lacks, and the module's imports.

    Args:
        problem: Names the function.
        completion: What a model answered.
        class_name: The class of the test program that the solution stands in; "" for none.
    """
    whole = _take_whole(problem, completion)
    if whole is None and class_name:
        whole = _take_member(problem, completion, class_name)
    return f"{end_signature(problem)}\n{completion}" if whole is None else whole


def correct(problem: BioProblem, completion: str, *, class_name: str = "") -> Corrected:
    """Repair what keeps a completion from being read, and return the whole solution.

    In this order: characters outside ASCII become blanks; a Markdown fence is taken off; text
    before the function is dropped if the function is there; a body at the left margin is
    indented; lines are cut from the end, at most 200, until the solution can be parsed. Arguments
    as of ``assemble``.
    """
    repairs: list[str] = []
    text = completion

    def change(new: str, repair: str) -> None:
        nonlocal text
        if new != text:
            repairs.append(repair)
            text = new

    change(_NON_ASCII.sub(" ", text), "characters outside ASCII replaced")
    fenced = _FENCE.search(text)
    if fenced:
        change(fenced[1], "fence removed")
    change(_drop_echo(problem, text), "text before the function removed")
    is_body = _take_whole(problem, text) is None
    if is_body and not (class_name and _take_member(problem, text, class_name)):
        change(_indent_body(text), "body indented")
    solution = assemble(problem, text, class_name=class_name)
    shorter = _cut_end(solution) if problem.language == "python" else solution
    if shorter != solution:
        repairs.append("end cut")
    return Corrected(shorter, tuple(repairs))


def _take_whole(problem: BioProblem, text: str) -> str | None:
    """Return a text that defines the function, at the left margin; None for a body."""
    if problem.language == "java":
        pattern = rf"\b{re.escape(problem.function)}\s*\([^;]*\)[^;]*\{{"
        return text if re.search(pattern, text) else None
    whole = move_to_margin(text)
    names = "|".join(map(re.escape, (problem.function, *problem.other_names)))
    # A body may have a function of the same name in it, but it returns something itself.
    if not re.search(rf"^(?:async +)?def +(?:{names})\b", whole, re.M) or re.search(
        r"^return\b", whole, re.M
    ):
        return None
    return whole


def _take_member(problem: BioProblem, text: str, class_name: str) -> str | None:
    """Return the function out of a class around it, with the module's imports."""
    names = (problem.function, *problem.other_names)
    found = list_members(text, names, program=problem.context)
    if not found:
        return None
    member = next((one for one in found if one.class_name == class_name), found[-1])
    return "\n".join([*member.imports, move_to_margin("\n".join(member.lines))])


def _drop_echo(problem: BioProblem, text: str) -> str:
    """Drop lines before the last place where the function begins; its decorators stay."""
    if problem.language != "python":
        return text
    pattern = rf"^(?:[ \t]*@.*\n)*[ \t]*(?:async +)?def +{re.escape(problem.function)}\b"
    found = list(re.finditer(pattern, text, re.M))
    whole = _take_whole(problem, text)  # one that is merely indented can be read as it is
    if not found or _parses(text) or (whole is not None and _parses(whole)):
        return text
    return textwrap.dedent(text[found[-1].start() :])


def _indent_body(text: str) -> str:
    first = next((line for line in text.split("\n") if line.strip()), "")
    return textwrap.indent(text, "    ") if first and not first[0].isspace() else text


def _cut_end(solution: str) -> str:
    lines = solution.split("\n")
    for num_cut in range(min(len(lines), _MOST_CUTS)):
        shorter = "\n".join(lines[: len(lines) - num_cut])
        if _parses(shorter) and shorter.strip():
            return shorter
    return solution


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
