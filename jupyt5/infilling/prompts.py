"""A plan in words: one text for causal and fill-in-the-middle models, messages for chat models.

Both are a Markdown document, which such models have read a lot of: Markdown cells as they are,
code cells in fences. What a request for the same cell repeats comes first and the text before
the cursor last, so that a runtime which keeps its state only has to read what was typed since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from jupyt5.infilling.planning import Segment, SegmentRole
from jupyt5.infilling.texts import CellText

__all__ = ["Message", "Prompt", "render_messages", "render_prompt"]

_FENCE = "```"
_OPEN_FENCE = "```python\n"

_SYSTEM = (
    "You fill in one cell of a Jupyter notebook in Python. "
    "Answer with the content of that cell only, without explanations."
)
_BEFORE = "The notebook so far:"
_AFTER = {
    "code": "The cell that you write is followed by this one, which must work:",
    "markdown": "The cell that you write is followed by this one:",
}
_ENDING = "The cell that you write ends with these lines, do not repeat them:"
_BEGINNING = "The cell that you write begins with these lines, go on from there:"
_TASK = {
    "code": "Write the code cell.",
    "markdown": "Write the Markdown cell that explains the code.",
}


class Message(TypedDict):
    """One message of a chat."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a completion model is given.

    Attributes:
        before: Text that the completion continues.
        after: Text that follows the completion; empty unless the model fills in the middle.
        stop: Texts that end the completion and are not part of it.
    """

    before: str
    after: str
    stop: tuple[str, ...]


def render_prompt(
    plan: Sequence[Segment], texts: Mapping[int, CellText], *, infill: bool = False
) -> Prompt:
    """Turn a plan into the prompt of a completion model.

    Args:
        plan: From ``plan_example``, over the views of ``texts``.
        texts: Every cell that the plan names.
        infill: The model takes text after the slot. Without it, what follows the target is told
            before it.
    """
    parts = _Parts.collect(plan, texts)
    opening = _open_cell(parts) + parts.prefix
    if infill:
        blocks = [*parts.context, opening]
        closing = f"\n{_FENCE}" if parts.is_code else ""
        after = "\n\n".join([parts.suffix + closing, *parts.following])
        return Prompt(before="\n\n".join(blocks), after=after, stop=parts.stop)
    blocks = [*parts.context, *_tell_following(parts), opening]
    return Prompt(before="\n\n".join(blocks), after="", stop=parts.stop)


def render_messages(
    plan: Sequence[Segment], texts: Mapping[int, CellText], *, prefill: bool = False
) -> list[Message]:
    """Turn a plan into the messages for a chat model.

    Args:
        plan: From ``plan_example``, over the views of ``texts``.
        texts: Every cell that the plan names.
        prefill: The last message is the beginning of the answer, up to the cursor, which the
            model goes on with; an answer in a code cell ends at ``Prompt.stop``. Without it the
            text before the cursor is told by the user.
    """
    parts = _Parts.collect(plan, texts)
    blocks = [_BEFORE, *parts.context] if parts.context else []
    blocks += _tell_following(parts)
    if parts.prefix.strip() and not prefill:
        blocks += [_BEGINNING, _wrap(parts.kind, parts.prefix)]
    blocks.append(_TASK[parts.kind])
    messages: list[Message] = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": "\n\n".join(blocks)},
    ]
    if prefill:
        messages.append({"role": "assistant", "content": _open_cell(parts) + parts.prefix})
    return messages


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A plan's texts by what they are: cells as blocks, the target's own text as it is."""

    kind: str
    context: Sequence[str]
    following: Sequence[str]
    following_kind: str
    prefix: str
    suffix: str

    @property
    def is_code(self) -> bool:
        return self.kind == "code"

    @property
    def stop(self) -> tuple[str, ...]:
        return (f"\n{_FENCE}",) if self.is_code else (f"\n{_OPEN_FENCE.rstrip()}",)

    @classmethod
    def collect(cls, plan: Sequence[Segment], texts: Mapping[int, CellText]) -> "_Parts":
        target = next(segment.cell_idx for segment in plan if segment.role == "slot")

        def cut(*roles: SegmentRole) -> list[tuple[str, str]]:
            found = (segment for segment in plan if segment.role in roles)
            cells = ((texts[segment.cell_idx], segment) for segment in found)
            return [(cell.kind, cell.cut(part.start, part.end)) for cell, part in cells]

        following = cut("following")
        return cls(
            kind=_name_kind(texts[target].kind),
            context=[_wrap(*cell) for cell in cut("context")],
            following=[_wrap(*cell) for cell in following],
            following_kind=_name_kind(following[0][0]) if following else "",
            prefix="".join(text for _, text in cut("prefix")),
            suffix="".join(text for _, text in cut("suffix")),
        )


def _tell_following(parts: _Parts) -> list[str]:
    """Return the blocks that tell a model what it cannot be shown in its place."""
    blocks: list[str] = []
    if parts.following:
        blocks += [_AFTER[parts.following_kind], *parts.following]
    if parts.suffix.strip():
        blocks += [_ENDING, _wrap(parts.kind, parts.suffix)]
    return blocks


def _open_cell(parts: _Parts) -> str:
    return _OPEN_FENCE if parts.is_code else ""


def _wrap(kind: str, text: str) -> str:
    body = text.strip("\n")
    return f"{_OPEN_FENCE}{body}\n{_FENCE}" if _name_kind(kind) == "code" else body


def _name_kind(kind: str) -> str:
    return "code" if kind == "code" else "markdown"
