"""A small tolerant lexer for notebook cells, whole or half written.

The standard tokenizer stops at the first error, and a hypothesis that is still being generated is
an error most of the time. This one never fails: it only tells strings, comments, brackets and
IPython lines apart, which is all the cleaner needs to know.
"""

import re
from dataclasses import dataclass, field

# Possessive quantifiers: a hostile text costs one pass, never a backtracking explosion. Never on a
# group: Python 3.11.2, which Debian 12 has, matches those wrongly.
_LONG = (
    r'"""(?:[^\\"]++|\\.|"(?!""))*(?:"""|\\?\Z)'
    r"|'''(?:[^\\']++|\\.|'(?!''))*(?:'''|\\?\Z)"
)
_SHORT = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"|\'[^\'\\\n]*+(?:\\.[^\'\\\n]*+)*\''
_TOKEN = re.compile(
    rf"(?P<string>{_LONG}|{_SHORT})|(?P<open_string>[\"'][^\n]*)|(?P<comment>\#[^\n]*)"
    r"|(?P<opening>[(\[{])|(?P<closing>[)\]}])|(?P<joined>\\\n)|(?P<newline>\n)"
    r"|(?P<code>[^\n\"'\#()\[\]{}\\]+|\\)",
    re.DOTALL,
)
_MASKED = re.compile(rf"(?P<long>{_LONG})|{_SHORT}|\#[^\n]*|(?P<escape>\\.)", re.DOTALL)
_MAGIC = re.compile(
    r"[ \t]*+(?:[%!?]|[\w.*%]++\?{1,2}[ \t]*+(?=\n|\Z)|[A-Za-z_][\w., ]*+=[ \t]*+[!%])[^\n]*"
)
_COMPOUND = re.compile(
    r"[ \t]*(?:async[ \t]+)?"
    r"(def|class|if|elif|else|for|while|try|except|finally|with|match|case)\b"
)
_PYTHON_CELL_MAGICS = ("%%time", "%%capture", "%%prun", "%%px")
_PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(slots=True)
class Line:
    """One physical line of a cell.

    Attributes:
        text: The line without its newline.
        kind: `code` where a statement begins, `inner` for its further lines, `string` where the
            line begins inside a string, else `blank`, `comment` or `magic`.
        opens_block: The statement that begins here ends in a colon that wants a body.
        has_comment: The line ends in a comment.
    """

    text: str = ""
    kind: str = "blank"
    opens_block: bool = False
    has_comment: bool = False

    @property
    def indent(self) -> str:
        """The white space at the start of the line."""
        return self.text[: len(self.text) - len(self.text.lstrip(" \t"))]

    @property
    def opens_function(self) -> bool:
        """Whether a function body begins after this statement."""
        match = _COMPOUND.match(self.text)
        return self.opens_block and match is not None and match[1] == "def"


@dataclass(slots=True)
class Scan:
    """What the lexer saw.

    Attributes:
        lines: Every physical line, the last one included when it is empty.
        depth: Brackets still open at the end.
        ends_in: `code`, `comment`, `string`, `joined` (after a backslash) or `magic`.
        balanced: No bracket closes what was not opened, and every string ends on its line.
    """

    lines: list[Line] = field(default_factory=list[Line])
    depth: int = 0
    ends_in: str = "code"
    balanced: bool = True

    @property
    def is_closed(self) -> bool:
        """Whether every bracket and string is closed, as in a finished cell."""
        return self.balanced and self.depth == 0 and self.ends_in not in ("string", "joined")


def is_foreign(text: str) -> bool:
    """Whether a cell magic hands the whole cell to something that is not Python."""
    stripped = text.lstrip()
    return stripped.startswith("%%") and not stripped.startswith(_PYTHON_CELL_MAGICS)


def mask(text: str) -> str:
    """Blank out strings and comments, keeping every newline and every position.

    A string that is never closed stays as it is: in prose it is an apostrophe.
    """
    return _MASKED.sub(_blank_out, text)


def _blank_out(match: re.Match[str]) -> str:
    text = match[0]
    if match["escape"] or (match["long"] and not _is_closed_string(text)):
        return text
    return "\n".join(" " * len(line) for line in text.split("\n"))


def _is_closed_string(text: str) -> bool:
    return not text.startswith(('"""', "'''")) or (len(text) > 5 and text.endswith(text[:3]))


def scan(text: str) -> Scan:
    """Read a cell, or the beginning of one, line by line; any text will do."""
    state = _State(text)
    position = state.skip_magic(0)
    while (match := _TOKEN.search(text, position)) is not None:
        position = match.end()
        kind = match.lastgroup
        if kind == "newline":
            position = state.end_line(match.start())
        elif kind == "comment":
            state.line.has_comment = True
        elif kind == "joined":
            state.begin_statement()
            state.break_line(position - 1, "inner")
        else:
            state.take(kind, match)
    return state.finish()


class _State:
    """Where the lexer stands."""

    def __init__(self, text: str) -> None:
        self.line = Line()  # the physical line being read
        self._text = text
        self._result = Scan()
        self._brackets: list[str] = []
        self._line_start = 0
        self._statement: Line | None = None
        self._last_code = ""  # the last character of the statement that is not white space
        self._string_open = False

    def begin_statement(self) -> None:
        """Make the present line the first of a statement, unless one is under way."""
        if self._statement is None:
            self._statement = self.line
            self.line.kind = "code"

    def take(self, kind: str | None, match: re.Match[str]) -> None:
        """Read a string, a bracket or a run of other code."""
        text = match[0].rstrip()
        if not text:
            return
        self.begin_statement()
        self._last_code = text[-1] if kind == "code" else ""
        if kind == "opening":
            self._brackets.append(text)
        elif kind == "closing":
            if not self._brackets or self._brackets.pop() != _PAIRS[text]:
                self._result.balanced = False
        elif kind == "open_string":
            self._result.balanced = False
            self._string_open = match.end() == len(self._text)
        elif kind == "string":
            text = match[0]
            for newline in re.finditer("\n", text):
                self.break_line(match.start() + newline.start(), "string")
            self._string_open = not _is_closed_string(text)

    def break_line(self, end: int, next_kind: str) -> None:
        """Store the physical line that ends at `end`; the next one begins as `next_kind`."""
        self.line.text = self._text[self._line_start : end]
        if self.line.has_comment and self.line.kind == "blank":
            self.line.kind = "comment"
        self._result.lines.append(self.line)
        self.line = Line(kind=next_kind)
        self._line_start = end + 1

    def end_line(self, end: int) -> int:
        """Take a newline that no string or backslash hides; return where to read on."""
        if self._brackets:
            self.break_line(end, "inner")
            return end + 1
        self.break_line(end, "blank")
        self._close_statement()
        return self.skip_magic(end + 1)

    def skip_magic(self, position: int) -> int:
        """Step over IPython lines, whose quotes and brackets mean nothing to Python."""
        while (match := _MAGIC.match(self._text, position)) is not None:
            self.line.kind = "magic"
            end = match.end()
            if end == len(self._text):
                return end
            self.break_line(end, "blank")
            position = end + 1
        return position

    def _close_statement(self) -> None:
        statement = self._statement
        if statement is not None:
            is_compound = _COMPOUND.match(statement.text) is not None
            statement.opens_block = is_compound and self._last_code == ":"
        self._statement, self._last_code = None, ""

    def finish(self) -> Scan:
        """Close the last line."""
        result, last = self._result, self.line
        result.depth = len(self._brackets)
        if self._string_open:
            result.ends_in = "string"
        elif last.kind == "magic":
            result.ends_in = "magic"
        elif last.has_comment:
            result.ends_in = "comment"
        elif last.kind == "inner" and not result.depth and self._line_start >= len(self._text):
            result.ends_in = "joined"
        self.break_line(len(self._text), "blank")
        if not result.depth:
            self._close_statement()
        return result
