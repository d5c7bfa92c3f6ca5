"""A plan in words: one text for causal and fill-in-the-middle models, messages for chat models.

A prompt is a script in percent format (``# %%`` opens a cell), as notebooks in training data of
code models are; messages show cells as Markdown does, code in fences. What requests for one cell
have in common comes first and the text before the cursor last, so that a runtime which keeps its
state only has to read what was typed since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from jupyt5.infilling.planning import Segment, SegmentRole
from jupyt5.infilling.texts import CellText

__all__ = ["Message", "Prompt", "render_messages", "render_prompt"]

_CODE_MARK = "# %%\n"
_TEXT_MARK = "# %% [markdown]\n"
_QUOTES = '"""'
_STOPS = ("\n# %%",)

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
    blocks = [_to_script(*cell) for cell in parts.context]
    following = [_to_script(*cell) for cell in parts.following]
    # Text to be written is not commented, but quoted, which is percent format as well.
    opening = _CODE_MARK if parts.is_code else f"{_TEXT_MARK}{_QUOTES}\n"
    stop = _STOPS if parts.is_code else (f"\n{_QUOTES}", *_STOPS)
    if infill:
        closing = "" if parts.is_code else f"\n{_QUOTES}"
        after = "\n\n".join([parts.suffix + closing, *following])
    else:
        notes = "\n\n".join(_tell_following(parts))
        blocks += [_to_script("markdown", notes)] if notes else []
        after = ""
    return Prompt(before="\n\n".join([*blocks, opening + parts.prefix]), after=after, stop=stop)


def render_messages(
    plan: Sequence[Segment], texts: Mapping[int, CellText], *, prefill: bool = False
) -> list[Message]:
    """Turn a plan into the messages for a chat model.

    Args:
        plan: From ``plan_example``, over the views of ``texts``.
        texts: Every cell that the plan names.
        prefill: The last message is the beginning of the answer, up to the cursor, which the
            model goes on with; code is in a fence there, whose end ends the answer. Without it
            the text before the cursor is told by the user.
    """
    parts = _Parts.collect(plan, texts)
    blocks = [_BEFORE, *(_wrap(*cell) for cell in parts.context)] if parts.context else []
    blocks += _tell_following(parts)
    if parts.prefix.strip() and not prefill:
        blocks += [_BEGINNING, _wrap(parts.kind, parts.prefix)]
    blocks.append(_TASK[parts.kind])
    messages: list[Message] = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": "\n\n".join(blocks)},
    ]
    if prefill:
        opening = _OPEN_FENCE if parts.is_code else ""
        messages.append({"role": "assistant", "content": opening + parts.prefix})
    return messages


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A plan's texts by what they are; cells are pairs of kind and text."""

    kind: str
    context: Sequence[tuple[str, str]]
    following: Sequence[tuple[str, str]]
    prefix: str
    suffix: str

    @property
    def is_code(self) -> bool:
        return self.kind == "code"

    @classmethod
    def collect(cls, plan: Sequence[Segment], texts: Mapping[int, CellText]) -> "_Parts":
        target = next(segment.cell_idx for segment in plan if segment.role == "slot")

        def cut(*roles: SegmentRole) -> list[tuple[str, str]]:
            found = (segment for segment in plan if segment.role in roles)
            cells = ((texts[segment.cell_idx], segment) for segment in found)
            return [(_name_kind(cell.kind), cell.cut(part.start, part.end)) for cell, part in cells]

        return cls(
            kind=_name_kind(texts[target].kind),
            context=cut("context"),
            following=cut("following"),
            prefix="".join(text for _, text in cut("prefix")),
            suffix="".join(text for _, text in cut("suffix")),
        )


def _tell_following(parts: _Parts) -> list[str]:
    """Return the blocks that tell a model what it cannot be shown in its place."""
    blocks: list[str] = []
    if parts.following:
        blocks.append(_AFTER[parts.following[0][0]])
        blocks += [_wrap(*cell) for cell in parts.following]
    if parts.suffix.strip():
        blocks += [_ENDING, _wrap(parts.kind, parts.suffix)]
    return blocks


def _wrap(kind: str, text: str) -> str:
    """Return a cell as a block of a Markdown document."""
    body = text.strip("\n")
    return f"{_OPEN_FENCE}{body}\n{_FENCE}" if kind == "code" else body


def _to_script(kind: str, text: str) -> str:
    """Return a cell as a block of a script in percent format."""
    body = text.strip("\n")
    if kind == "code":
        return _CODE_MARK + body
    return _TEXT_MARK + "\n".join(f"# {line}".rstrip() for line in body.split("\n"))


def _name_kind(kind: str) -> str:
    return "code" if kind == "code" else "markdown"
