"""Fit an answer into the target: its first newline, its indents, the cell's own indent unit.

A model that continues the text exactly is left alone: its answer changes only where Python would
refuse the indents. A chat model answers with a block of its own, which is moved as a whole.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from jupyt5.hypotheses.fences import looks_like_code
from jupyt5.hypotheses.lexer import Line, Scan, scan

__all__ = ["fit"]

_DEFAULT_UNIT = "    "
_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")
_KEYWORD_START = re.compile(
    r"(?:(?:from|import|def|class|return|raise|assert|while|try|with|async)\b|@"
    r"|(?:for|if)\b[^\n]*:[ \t]*(?:\#[^\n]*)?$).*"
)
_NEW_STATEMENT = re.compile(
    rf"{_KEYWORD_START.pattern}|[\w.\[\], ]+ [-+*/|&%@]?= .*|[A-Za-z_][\w.]*\(.*|\#.*"
)
# Words that may follow a finished expression on its line.
_GOES_ON = re.compile(r"(?:if|else|for|in|is|not|and|or|as)\b|[^\W\d]\w*[\"']")
_LEAVES = re.compile(r"\s*(?:return|raise|break|continue)\b")
_RETURNS = re.compile(r"\s*(?:return|yield)\b")


def fit(answer: str, prefix: str, suffix: str) -> str:
    """Give an answer the newline and the indents it needs between `prefix` and `suffix`."""
    before = scan(prefix)
    if before.depth or before.ends_in in ("string", "joined") or not answer.strip():
        return answer
    newline = ""
    if before.lines[-1].text.strip():
        wants_newline = _wants_newline(answer, before)
        if not wants_newline and not answer.startswith("\n"):
            return answer
        newline = "\n"
    elif not prefix.strip():
        answer = _BLANK_LINES.sub("", answer)
        if not answer.startswith((" ", "\t")) and not prefix:
            return answer
    if answer.startswith("\n"):
        if not _count_bad(prefix + answer, len(before.lines)):
            return answer
        answer = _BLANK_LINES.sub("", answer)
    place = _find_place(answer, prefix + newline, before, _find_unit(scan(suffix).lines))
    return newline + _choose(answer, place)


def _wants_newline(answer: str, before: Scan) -> bool:
    """Whether the cursor's line is finished, so that the answer belongs on the next one."""
    first = answer.split("\n", 1)[0]
    if not first.strip():
        return False
    last = before.lines[-1].text
    is_spaced = re.match(r" \S", first) is not None
    is_statement = _NEW_STATEMENT.fullmatch(first.strip()) is not None
    if before.ends_in == "comment":
        return not is_spaced or (is_statement and looks_like_code(first))
    if before.ends_in == "magic":
        return is_statement and not is_spaced
    statements = [line for line in before.lines if line.kind in ("code", "magic")]
    if statements and statements[-1].opens_block:
        return not is_spaced
    if last[-1] in ")]}\"'":
        is_glued = first.lstrip()[0].isidentifier() and _GOES_ON.match(first.lstrip()) is None
        return is_glued and not is_spaced
    if last[-1].isdigit():
        return is_statement and _GOES_ON.match(first) is None
    return last[-1].isidentifier() and _KEYWORD_START.fullmatch(first) is not None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a block goes.

    Attributes:
        before: The target's text before it, a newline that has to be put in included.
        target: Indent that its first statement gets.
        typed: How much of that indent stands there already.
        unit: The cell's indent unit, or None where the cell shows none.
        line_idx: Index of the line on which it begins.
        levels: The indents at which a statement may stand there, the outermost first.
    """

    before: str
    target: str
    typed: str
    unit: str | None
    line_idx: int
    levels: tuple[str, ...]


def _find_place(answer: str, before_text: str, before: Scan, suffix_unit: str | None) -> _Place:
    """Find the indent that the next statement should have."""
    *_, (levels, header, _) = _walk(before.lines)
    has_newline = before.lines[-1].text.strip() != ""
    last = before.lines[-1]
    typed = "" if has_newline else last.text
    unit = _find_unit(before.lines)
    if unit is None and header is not None and len(typed) > len(header):
        unit = typed[len(header) :]
    unit = unit or suffix_unit

    def admits(indent: str) -> bool:
        if header is None:
            return indent in levels
        return indent.startswith(header) and indent != header

    own_indent = answer[: len(answer) - len(answer.lstrip(" \t"))]
    default = levels[-1]
    if header is not None:
        default = header + (unit or _find_unit(scan(answer).lines) or _DEFAULT_UNIT)
    if has_newline:
        wishes = (last.indent,) if last.kind == "comment" else ()
        wishes = (*wishes, own_indent) if own_indent else wishes
    else:
        wishes = (typed, typed + own_indent) if typed else (own_indent, typed)
        default = default if header is not None and default.startswith(typed) else typed
    target = next((wish for wish in wishes if admits(wish)), default)
    line_idx = len(before.lines) - 1 + has_newline
    return _Place(before_text, target, typed, unit, line_idx, levels)


def _choose(answer: str, place: _Place) -> str:
    """Choose, among the ways to read a block's indents, the first that Python accepts."""
    likeliest = ""
    for candidate in _iter_placements(answer, place):
        if not _count_bad(place.before + candidate, place.line_idx):
            return candidate
        likeliest = likeliest or candidate
    return likeliest


def _iter_placements(answer: str, place: _Place) -> Iterator[str]:
    """Yield the ways to place a block, the likeliest first.

    Its further lines are either as in the finished cell (absolute), or relative to its first.
    """
    base = answer[: len(answer) - len(answer.lstrip(" \t"))]
    lines: list[Line] | None = None
    is_mixed = False
    foreign = " " if (place.unit or "").startswith("\t") else "\t"
    if place.unit is not None and "\n" + foreign in "\n" + answer:
        lines = scan(answer).lines
        is_mixed = any(line.kind == "code" and line.indent.startswith(foreign) for line in lines)
    is_aligned_comment = not place.typed and answer.lstrip().startswith("#")
    if not is_mixed and (is_aligned_comment or base == place.target[len(place.typed) :]):
        yield answer
    lines = lines or scan(answer).lines
    unit = _find_smallest_unit(lines, base)
    relative = _move(lines, base, place, unit, is_relative=True)
    absolute = _move(lines, base, place, unit, is_relative=False)
    dedented = "\n".join(line.text.removeprefix(base) for line in lines)
    yield from (absolute, relative) if _count_bad(dedented, 0, True) else (relative, absolute)
    for level in place.levels:  # a `return` at column 0 shows that the block belongs deeper
        if level.startswith(place.typed) and level != place.target:
            yield _move(lines, base, replace(place, target=level), unit, is_relative=True)


def _move(
    lines: list[Line], base: str, place: _Place, unit: str | None, *, is_relative: bool
) -> str:
    """Write a block with new indents; what is inside strings stays as it is."""
    target = place.target
    moved = [target[len(place.typed) :] + lines[0].text.removeprefix(base)]
    old_indent, new_indent = base, target
    has_left = _LEAVES.match(lines[0].text) is not None
    for line in lines[1:]:
        if line.kind in ("string", "blank"):
            moved.append(line.text)
            continue
        if line.kind == "inner":
            is_aligned = line.text.startswith(old_indent)
            moved.append(new_indent + line.text[len(old_indent) :] if is_aligned else line.text)
            continue
        old_indent = line.indent
        is_base = old_indent == base
        if is_relative and is_base and has_left:
            target = ""  # nothing can follow a return but what is outside its block
        has_left = is_base and _LEAVES.match(line.text) is not None
        if is_relative and old_indent.startswith(base):
            new_indent = target + _convert(old_indent[len(base) :], unit, place.unit)
        else:
            new_indent = _convert(old_indent, unit, place.unit)
        moved.append(new_indent + line.text[len(old_indent) :])
    return "\n".join(moved)


def _convert(indent: str, own_unit: str | None, cell_unit: str | None) -> str:
    """Write an indent in the cell's unit."""
    if not own_unit or not cell_unit or own_unit == cell_unit:
        return indent
    num_units = 0
    while indent.startswith(own_unit):
        indent = indent.removeprefix(own_unit)
        num_units += 1
    return cell_unit * num_units + indent


def _walk(
    lines: list[Line], in_function: bool = False
) -> Iterator[tuple[tuple[str, ...], str | None, bool]]:
    """Follow the indents as Python does; yield after each line (levels, open header, is bad)."""
    levels = [("", in_function)]
    header: Line | None = None
    for line in lines:
        is_bad = False
        if line.kind in ("code", "magic"):
            indent = line.indent
            is_deeper = indent.startswith(levels[-1][0]) and indent != levels[-1][0]
            is_bad = is_deeper != (header is not None)
            known = [level for level, _ in levels]
            if not is_deeper and indent in known:
                del levels[known.index(indent) + 1 :]
            else:
                is_bad = is_bad or not is_deeper
                opens_function = header is not None and header.opens_function
                levels.append((indent, levels[-1][1] or opens_function))
            is_bad = is_bad or (not levels[-1][1] and _RETURNS.match(line.text) is not None)
            header = line if line.opens_block else None
        names = tuple(level for level, _ in levels)
        yield names, None if header is None else names[-1], is_bad


def _count_bad(text: str, first_line_idx: int, in_function: bool = False) -> int:
    """Count the lines, from an index on, at which Python would refuse the indent."""
    walked = enumerate(_walk(scan(text).lines, in_function))
    return sum(is_bad for line_idx, (_, _, is_bad) in walked if line_idx >= first_line_idx)


def _find_unit(lines: list[Line], parent: str = "") -> str | None:
    """Return the first step by which the statements of a cell are indented."""
    for line in lines:
        if line.kind == "code":
            if line.indent.startswith(parent) and line.indent != parent:
                return line.indent[len(parent) :]
            parent = line.indent
    return None


def _find_smallest_unit(lines: list[Line], base: str) -> str | None:
    """Return the smallest indent of a block, beyond that of its first line."""
    steps = {line.indent.removeprefix(base) for line in lines if line.kind == "code"} - {""}
    return min(steps, key=len) if steps else base or None
