"""Take the code out of an answer that comes with Markdown fences and talk around it."""

import re
from dataclasses import dataclass

from jupyt5.hypotheses.lexer import mask

__all__ = ["looks_like_code", "unwrap_code", "unwrap_markdown"]

_FENCE = re.compile(
    r"^(?P<lead>[^\n`]*?)(?P<mark>`{3,})(?P<info>[^\n`]*)$"
    r"|^(?P<tilde_lead>[ \t]*)(?P<tildes>~{3,})(?P<tilde_info>[ \t]*[\w{}.+#-]*[ \t]*)$",
    re.MULTILINE,
)
_ONE_LINE = re.compile(r"\s*`{3,}(?:python3?|py)?[ \t]*([^`\n]+?)[ \t]*`{3,}\s*")
_HALF_FENCE = re.compile(r"(?:\A|\n)[ \t]*`{1,2}\Z")  # a fence of which more is to come
_PYTHON_INFO = re.compile(r"\W*(?:$|(?:i?python|py|sage|jupyter|code|pycon)\w*)", re.IGNORECASE)
_MARKDOWN_INFO = {"markdown", "md"}

_STATEMENT = re.compile(
    r"\s*(?:[%!@]|(?:import|from|def|class|async|return|raise|assert|del|global)\s+\w"
    r"|(?:pass|break|continue|else|try|finally)\b\s*(?::|$)|(?:if|elif|for|while|with)\b.*:\s*$"
    r"|[\w.\[\], ]+?\s*[-+*/|&%@]?=(?!=)|[\w.]+[(\[])"
)
_SENTENCE = re.compile(
    r"\s*(?!(?:True|False|None)\b)[A-Z][\w']*,?\s+[a-z']+|\s*[A-Z][a-z']+[:!.,]?\s*$"
)


@dataclass(frozen=True, slots=True)
class _Fence:
    start: int
    end: int
    lead: str
    mark: str
    info: str

    def closes(self, opener: "_Fence") -> bool:
        """Whether this line ends the block that `opener` began."""
        same = self.mark[0] == opener.mark[0] and len(self.mark) >= len(opener.mark)
        return same and not self.info


def looks_like_code(text: str) -> bool:
    """Judge lines of an answer: code, or talk about code."""
    verdicts = [_is_code(line) for line in text.split("\n") if line.strip()]
    known = [verdict for verdict in verdicts if verdict is not None]
    return bool(known) and known[-1]


def _is_code(line: str) -> bool | None:
    """True or False for code or prose, None for a comment."""
    if line.lstrip().startswith("#"):
        return None
    if _SENTENCE.match(line):
        return False
    if _STATEMENT.match(line):
        return True
    words = line.split()
    return len(words) == 1 and not line.rstrip().endswith((":", ".", "!", ","))


def unwrap_code(raw: str) -> str:
    """Return the first block of Python in an answer; an answer without fences as it is.

    Fences inside Python strings and comments are not fences. An opening fence that was lost, or
    a closing one that has not come yet, is put up with.
    """
    if "`" not in raw and "~~~" not in raw:
        return raw
    one_line = _ONE_LINE.fullmatch(raw)
    if one_line:
        return one_line[1]
    raw = _HALF_FENCE.sub("", raw)
    return _drop_stray_fences(_unwrap(raw))


def _unwrap(raw: str) -> str:
    fences = _find_fences(raw)
    if not fences:
        return raw
    if _is_lost_opening(raw, fences):
        return raw[: fences[0].start] + fences[0].lead
    blocks = [(info, code) for info, code in _split_blocks(raw, fences) if code.strip()]
    python = [code for info, code in blocks if _PYTHON_INFO.match(info)]
    return (python or [code for _, code in blocks] or [""])[0]


def _drop_stray_fences(code: str) -> str:
    """Drop lines that begin like a fence: whatever they meant, they are not Python."""
    masked = mask(code)
    if "```" not in masked or '"""' in masked or "'''" in masked:
        return code
    pairs = zip(code.split("\n"), masked.split("\n"), strict=True)
    return "\n".join(line for line, seen in pairs if not seen.lstrip().startswith("```"))


def _find_fences(raw: str) -> list[_Fence]:
    """Find the fences outside strings, in order."""
    masked = mask(raw)
    fences = [
        _Fence(
            match.start(),
            match.end(),
            raw[match.start() : match.start("mark")] if match["mark"] else "",
            match["mark"] or match["tildes"],
            (match["info"] or match["tilde_info"] or "").strip(),
        )
        for match in _FENCE.finditer(masked)
    ]
    # A long string that is still open before the first fence holds all of them.
    openings = [masked.find(quote) for quote in ('"""', "'''") if quote in masked]
    if fences and openings and min(openings) < fences[0].start:
        return []
    return fences


def _is_lost_opening(raw: str, fences: list[_Fence]) -> bool:
    """Whether the first fence closes a block whose own opening fence is missing."""
    first = fences[0]
    before, after = raw[: first.start] + first.lead, raw[first.end :]
    if first.info or not before.strip():
        return False
    if looks_like_code(before):
        return True
    another_opens = len(fences) > 1 and bool(fences[1].info)
    return another_opens and bool(after[: fences[1].start - first.end].strip())


def _split_blocks(raw: str, fences: list[_Fence]) -> list[tuple[str, str]]:
    """Cut out (language, content) of every block; an unclosed one runs to the next or the end."""
    blocks: list[tuple[str, str]] = []
    opener: _Fence | None = None
    for fence in fences:
        if opener is not None:
            content = raw[opener.end + 1 : fence.start]
            if fence.closes(opener):
                blocks.append((opener.info, content + fence.lead))
                opener = None
                continue
            if not fence.info:  # a shorter or different fence is content
                continue
            blocks.append((opener.info, content))
        opener = fence
    if opener is not None:
        blocks.append((opener.info, raw[opener.end + 1 :]))
    return [(info, content.removesuffix("\n")) for info, content in blocks]


def unwrap_markdown(raw: str) -> str:
    """Remove the one fence that wraps a whole Markdown answer; keep every other fence."""
    text = raw.strip("\n")
    lines = text.rstrip().split("\n")
    opener = re.fullmatch(r"[ \t]*(`{3,}|~{3,})[ \t]*(\w*)[ \t]*", lines[0])
    if opener is None or opener[2].lower() not in {"", *_MARKDOWN_INFO}:
        return raw
    depth = 1
    for line_idx, line in enumerate(lines[1:], 1):
        fence = re.fullmatch(r"[ \t]*(`{3,}|~{3,})[ \t]*(.*?)[ \t]*", line)
        if fence is None or fence[1][0] != opener[1][0]:
            continue
        depth += 1 if fence[2] else -1
        if depth == 0:
            return "\n".join(lines[1:line_idx]) if line_idx == len(lines) - 1 else raw
    return "\n".join(lines[1:]) if opener[2] else raw
