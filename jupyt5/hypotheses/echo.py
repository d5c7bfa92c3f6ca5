"""Take out of an answer what stands in the notebook already: before it, after it, below it.

A repeat may be meant (`x += 1` twice), so only what is pointless to say twice counts as an echo:
a half-written line begun again, a header, an import, a comment, the reader's own test.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from jupyt5.hypotheses.lexer import scan

__all__ = ["drop_following_echo", "drop_prefix_echo", "drop_suffix_echo"]

_HEADER = re.compile(r"\s*(?:async\s+)?(?:def|class)\b.*:")
_POINTLESS_TWICE = re.compile(
    r"\s*(?:#|@|from\s|import\s|return\b|assert\b|%|(?:async\s+)?(?:def|class)\s"
    r"|(?:if|elif|else|for|while|try|except|finally|with)\b.*:\s*(?:#.*)?$)"
)
_TEST = re.compile(r"\s*(?:assert\b|.*\bassert\w*\()")
_MIN_TEST_CHARS = len("assert x")
_MAX_OVERLAPS = 8


class Rest(NamedTuple):
    """What is left of an answer; exact if it goes on at the cursor, character for character."""

    text: str
    is_exact: bool = False


def drop_prefix_echo(
    answer: str, prefix: str, suffix: str = "", *, was_fenced: bool = False
) -> Rest:
    """Drop from the start of an answer what the target says before the cursor.

    A fenced answer is a block of its own: if it repeats the whole prefix, it is the whole cell.
    """
    begun = answer.lstrip()
    lines = prefix.split("\n")
    if not begun or not prefix.strip():
        return Rest(answer)
    if lines[-1].strip() and answer.startswith("\n"):
        return Rest(answer)  # it goes on below the cursor's line, so it did not begin again
    first = begun.split("\n", 1)[0].rstrip()
    for line_idx, line in enumerate(lines):
        if not line.strip() or not _may_begin(line.strip(), first, line_idx == len(lines) - 1):
            continue
        tail = "\n".join(lines[line_idx:]).lstrip()
        rest = _split_off(begun, tail, is_new_line=not lines[-1].strip())
        if rest is None:
            continue
        if not lines[-1].strip() or rest.text.startswith("\n") or not rest.text:
            covers_prefix = tail.strip() == prefix.strip()
            is_whole_cell = covers_prefix and (was_fenced or "\n" in tail.strip())
            if is_whole_cell or any(map(_POINTLESS_TWICE.match, tail.split("\n"))):
                return rest
        elif _is_begun_again(answer, rest.text, prefix, suffix, tail):
            return rest
    return Rest(_drop_header_echo(begun, lines) or answer)


def _split_off(begun: str, tail: str, *, is_new_line: bool) -> Rest | None:
    """Return what follows the repeated text, or None if it is not repeated."""
    if begun.startswith(tail):
        return Rest(begun[len(tail) :], is_exact=True)
    bare = tail.rstrip()
    rest = begun[len(bare) :]
    if not begun.startswith(bare) or not (rest == "" or rest.startswith("\n")):
        return None
    return Rest(rest.removeprefix("\n") if is_new_line else rest)


def _may_begin(line: str, first: str, is_last: bool) -> bool:
    return first == line or (is_last and first.startswith(line))


def _is_begun_again(answer: str, rest: str, prefix: str, suffix: str, tail: str) -> bool:
    """Whether the answer starts the half-written line afresh instead of going on with it."""
    if "\n" in tail:
        return True
    continued = scan(prefix + answer + suffix).is_closed
    restarted = scan(prefix + rest + suffix).is_closed
    if continued != restarted:
        return restarted
    return re.search(r"[^\W\d]", tail) is not None


def _drop_header_echo(begun: str, prefix_lines: Sequence[str]) -> str | None:
    """Drop a repeated `def` or `class` line whose body the cursor stands in."""
    header, _, body = begun.partition("\n")
    if not _HEADER.match(header):
        return None
    for line_idx in range(len(prefix_lines) - 1, -1, -1):
        line = prefix_lines[line_idx]
        if line.strip() == header.strip():
            return _skip_repeated(body, prefix_lines[line_idx + 1 :], prefix_lines[-1])
        if line.strip() and not line.startswith((" ", "\t")):
            return None
    return None


def _skip_repeated(body: str, said: Sequence[str], last: str) -> str:
    """Skip the lines of a body that were said, in order, after its header."""
    lines = body.split("\n")
    start = said_idx = 0
    while start < len(lines):
        wanted = lines[start].strip()
        matches = [i for i in range(said_idx, len(said)) if said[i].strip() == wanted]
        if wanted and not matches:
            break
        said_idx = matches[0] + 1 if wanted else said_idx
        start += 1
    rest = "\n".join(lines[start:])
    return "\n" + rest if last.strip() and rest else rest


def drop_suffix_echo(answer: str, prefix: str, suffix: str, *, is_whole_cell: bool = False) -> str:
    """Drop from the end of an answer what the target says after the cursor."""
    if not answer.strip() or not suffix.strip():
        return answer
    shorter = _drop_inline_overlap(answer, prefix, suffix)
    return _drop_repeated_lines(answer, suffix, is_whole_cell) if shorter is None else shorter


def _drop_inline_overlap(answer: str, prefix: str, suffix: str) -> str | None:
    """Drop closing characters that the editor has put after the cursor, if they are too many."""
    inline = suffix.split("\n", 1)[0].rstrip()
    ended = answer.rstrip()
    overlaps = [n for n in range(min(len(inline), len(ended)), 0, -1) if ended.endswith(inline[:n])]
    if not overlaps or scan(prefix + answer + suffix).is_closed:
        return None
    for num_chars in overlaps[:_MAX_OVERLAPS]:
        if scan(prefix + ended[:-num_chars] + suffix).is_closed:
            return ended[:-num_chars]
    return None


def _drop_repeated_lines(answer: str, suffix: str, is_whole_cell: bool) -> str:
    after = [line.rstrip() for line in suffix.split("\n") if line.strip()]
    num_lines, kept = _find_repeat(answer, after)
    repeated = after[:num_lines]
    is_echo = is_whole_cell or num_lines > 1 or any(map(_POINTLESS_TWICE.match, repeated))
    return kept if is_echo else answer


def drop_following_echo(answer: str, following: Sequence[str]) -> str:
    """Drop the reader's test, or the whole next cell, from the end of an answer."""
    for source in following:
        lines = [line.rstrip() for line in source.split("\n") if line.strip()]
        for start in range(len(lines)):
            if start and not _TEST.match(lines[start]):
                continue
            num_lines, kept = _find_repeat(answer, lines[start:], allow_half_line=True)
            repeated = lines[start : start + num_lines]
            if any(map(_TEST.match, repeated)) or num_lines > 1:
                return kept
    return answer


def _find_repeat(
    answer: str, lines: Sequence[str], *, allow_half_line: bool = False
) -> tuple[int, str]:
    """Count the given lines with which an answer ends; also return the answer without them."""
    own = answer.rstrip().split("\n")
    filled = [idx for idx, line in enumerate(own) if line.strip()]
    for num_lines in range(min(len(lines), len(filled)), 0, -1):
        tail = [own[idx].rstrip() for idx in filled[-num_lines:]]
        same = tail[:-1] == list(lines[: num_lines - 1])
        last, wanted = tail[-1], lines[num_lines - 1]
        is_half = allow_half_line and len(last) >= _MIN_TEST_CHARS and wanted.startswith(last)
        if same and (last == wanted or is_half):
            return num_lines, "\n".join(own[: filled[-num_lines]]).rstrip()
    return 0, answer
