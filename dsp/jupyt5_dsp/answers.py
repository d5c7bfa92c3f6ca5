"""From what a model answers to the completion that is judged."""

import ast
import re
from collections.abc import Sequence

from jupyt5.hypotheses import clean_hypothesis
from jupyt5.hypotheses.fences import looks_like_code, unwrap_code
from jupyt5.providers import FillRequest
from jupyt5_dsp.members import list_imports, list_members

__all__ = ["cut_at_stop", "has_fence", "take_answer"]

_FENCE = re.compile(r"^[ \t]*(?:`{3}|~{3})", re.MULTILINE)
_FUTURE = re.compile(r"^from __future__ import annotations[ \t]*(?:#.*)?\n", re.MULTILINE)
_MARK = re.compile(r"`{3,}|~{3,}")
_MOST_BLOCKS = 20  # each is sought in all that follows
# The first mark of a thought may stand in the prompt, where a chat template puts it.
_THOUGHT = re.compile(
    r"^[ \t]*<think>.*?(?:</think>|\Z)|\A.*?^[ \t]*</think>", re.MULTILINE | re.DOTALL
)


def take_answer(
    raw: str,
    request: FillRequest,
    stops: Sequence[str],
    function: str = "",
    *,
    is_member: bool = False,
    keeps_future: bool = True,
) -> str:
    """Return the completion in a model's answer.

    An answer that goes on from the prompt ends before the first stop; what a model writes after
    it, fences too, says nothing. Thoughts, talk and fences are removed. A whole function, at the
    left margin, is taken as it is, since below the prompt's header it would be a function inside
    a function; so is a class with the member asked for. Of several fences the last with the
    function counts, as a model corrects itself; without a function, the first. Fences of nothing
    but imports before it belong to it.

    Args:
        raw: All that the model wrote.
        request: What it was shown.
        stops: The suite's: generated text ends before the first of these.
        function: The function whose header the prompt ends with; "" if it ends with none.
        is_member: Whether that is a member of a class.
        keeps_future: Whether a whole function keeps ``from __future__ import annotations``. Where
            the prompt stands before it in the program Python refuses that line; without it
            annotations are evaluated, as the prompt's own are.
    """
    raw = _THOUGHT.sub("", raw.replace("\r\n", "\n"))
    whole = _find_answer(raw, stops, function, is_member=is_member) if function else None
    if whole is not None:
        # After the prompt's text: the header stands there already.
        return f"\n{whole if keeps_future else _FUTURE.sub('', whole)}"
    text = _cut_continuation(raw, stops)
    return cut_at_stop(_clean(text if function else _join_imports(text), request), stops)


def cut_at_stop(text: str, stops: Sequence[str]) -> str:
    """Return generated text up to the first of a suite's stops."""
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]


def has_fence(text: str) -> bool:
    """Say whether a line of a text begins a Markdown fence, or ends one."""
    return bool(_FENCE.search(text))


def _clean(text: str, request: FillRequest) -> str:
    following = tuple(cell.source for cell in request.cells[request.target_idx + 1 :][:1])
    return clean_hypothesis(
        text,
        prefix=request.prefix,
        suffix=request.suffix,
        following=following,
        kind=request.kind,
    )


def _cut_continuation(raw: str, stops: Sequence[str]) -> str:
    """Cut at the first stop where what stands before it is code and no talk before a fence."""
    # A word of the prompt's own ends an answer wherever it stands; a line break may be in talk.
    raw = cut_at_stop(raw, [stop for stop in stops if not stop.startswith("\n")])
    head = cut_at_stop(raw, stops)
    if _FENCE.search(head) or not (_is_indented(head) or looks_like_code(head)):
        return raw
    return head


def _find_answer(raw: str, stops: Sequence[str], function: str, *, is_member: bool) -> str | None:
    """Return the text of an answer that defines the function; None if it does not."""
    before = _FENCE.split(raw, maxsplit=1)[0]
    head = _cut_whole(before, stops, function)
    blocks = _list_blocks(raw)
    if head is not None and (not blocks or _parses(head)):
        return head
    if blocks and raw.startswith(blocks[0]) and _is_indented(raw):
        return None  # it goes on from the header; what follows is an example
    # A fence is an end of its own: helpers below the function belong to the answer.
    stops_in_fence = [stop for stop in stops if stop.strip() not in ("class", "def")]
    for idx, block in reversed(list(enumerate(blocks))):
        whole = _cut_whole(block, stops_in_fence, function)
        if whole is None and is_member:
            whole = _find_class(block, stops, function)
        if whole is not None:
            return "\n".join([*filter(_has_only_imports, blocks[:idx]), whole])
    return None if blocks or not is_member else _find_class(before, stops, function)


def _list_blocks(raw: str) -> list[str]:
    """Return the fences' contents, Python where there is any, in order."""
    blocks: list[str] = []
    while len(blocks) < _MOST_BLOCKS and (block := unwrap_code(raw)) != raw and block.strip():
        blocks.append(block)
        start = raw.find(block)
        closing = _MARK.search(raw, start + len(block)) if start >= 0 else None
        if closing is None:
            break
        raw = raw[closing.end() :].partition("\n")[2]
    return blocks


def _join_imports(text: str) -> str:
    """Return fences of nothing but imports and the next one as one text; others as they are."""
    blocks = _list_blocks(text)
    count = next((idx for idx, one in enumerate(blocks) if not _has_only_imports(one)), 0)
    return "\n".join(blocks[: count + 1]) if count else text


def _cut_whole(text: str, stops: Sequence[str], function: str) -> str | None:
    found = re.search(rf"^(?:async[ \t]+)?def[ \t]+{re.escape(function)}\b", text, re.MULTILINE)
    # Who begins with an indented line goes on from the header, and repeats it later.
    if found is None or _is_indented(text):
        return None
    before = text[: found.start()]
    if not _parses(f"{before}def decorated(): pass"):
        before = ""  # talk
    return f"{before}{found[0]}{cut_at_stop(text[found.end() :], stops)}".strip("\n")


def _find_class(text: str, stops: Sequence[str], function: str) -> str | None:
    """Return the text that gives a member in its class; None if it does not."""
    # Base classes and helpers stand beside the class.
    stops = [stop for stop in stops if stop.strip() not in ("class", "def", "@")]
    text = cut_at_stop(text, stops)
    if _is_indented(text):
        return None
    first = re.search(r"^class\b", text, re.MULTILINE)
    for start in (0, first.start()) if first else ():  # talk may stand before it
        if list_members(text[start:], [function]):
            return text[start:].strip("\n")
    return None


def _has_only_imports(text: str) -> bool:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return bool(body) and len(list_imports(body)) == len(body)


def _is_indented(text: str) -> bool:
    return text.lstrip("\n")[:1] in (" ", "\t")


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
