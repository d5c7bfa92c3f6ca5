"""The one hypothesis cleaner: from what a model says to what goes into the cell."""

from collections.abc import Sequence

from jupyt5.hypotheses.echo import drop_following_echo, drop_prefix_echo, drop_suffix_echo
from jupyt5.hypotheses.fences import unwrap_code, unwrap_markdown
from jupyt5.hypotheses.indentation import fit
from jupyt5.hypotheses.lexer import is_foreign, scan

__all__ = ["clean_hypothesis", "is_foreign"]


def clean_hypothesis(
    raw: str,
    *,
    prefix: str = "",
    suffix: str = "",
    following: Sequence[str] = (),
    kind: str = "code",
) -> str:
    """Turn a model's answer into the text to insert between `prefix` and `suffix`.

    Pure and total: any text is taken, a half-generated one too, so it can be called on the
    growing text of a stream; only the last call decides. An answer that continues the prefix
    exactly, as our own models write it, comes back unchanged but for white space at its end.

    Args:
        raw: What the model has said so far.
        prefix: The target's text before the cursor.
        suffix: The target's text after it.
        following: Sources of the next cells; a test that stands there is not repeated.
        kind: Kind of the target cell. Only `code` is treated as Python.

    Returns:
        The text to insert: no fences, no talk around them, nothing that stands there already.
    """
    raw, prefix, suffix = (
        text.replace("\r\n", "\n") if "\r" in text else text for text in (raw, prefix, suffix)
    )
    if kind != "code":
        return _trim(unwrap_markdown(raw), suffix)
    if is_foreign(prefix or raw):
        return _trim(unwrap_code(raw), suffix)
    return _trim(_clean_code(raw, prefix, suffix, following), suffix)


def _clean_code(raw: str, prefix: str, suffix: str, following: Sequence[str]) -> str:
    answer = unwrap_code(raw)
    was_fenced = answer != raw
    if was_fenced and scan(prefix).ends_in == "string" and not _is_wrapped(raw):
        # In a string that the reader is writing, fences may be text: unless all is said again.
        was_fenced = drop_prefix_echo(answer, prefix, was_fenced=True).text != answer
        answer = answer if was_fenced else raw
    answer = drop_following_echo(answer, following)
    rest = drop_prefix_echo(answer, prefix, suffix, was_fenced=was_fenced)
    # Who repeats what comes before the cursor gives the whole cell, what comes after it too.
    left = drop_suffix_echo(rest.text, prefix, suffix, is_whole_cell=rest.text != answer)
    return left if rest.is_exact else fit(left, prefix, suffix)


def _is_wrapped(raw: str) -> bool:
    text = raw.strip()
    return text.startswith(("```", "~~~")) and text.endswith(("```", "~~~"))


def _trim(answer: str, suffix: str) -> str:
    """Remove white space at the end, but for the newline that parts it from the suffix."""
    trimmed = answer.rstrip()
    if not suffix.strip() or suffix.startswith("\n"):
        return trimmed
    if "\n" in answer[len(trimmed) :] and trimmed:
        return trimmed + answer[len(trimmed) :][answer[len(trimmed) :].rfind("\n") :]
    return answer
