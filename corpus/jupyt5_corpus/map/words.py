"""From cells to the text that fastText reads: one line a cell, words between spaces."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["iter_documents", "words_of", "write_lines"]

# Names and words of two to thirty characters: no numbers, no signs, no base64. fastText's own
# marks (`__label__`, `</s>`) are none.
_WORD = re.compile(r"(?<!\w)[^\W\d_]\w{1,29}(?!\w)")
_END = "\t\n"
"""Line that ends a notebook: a tab is no word, so fastText sees an empty line."""


def words_of(text: str) -> str:
    """Return the words of a cell in lower case, in order, with one space between."""
    return " ".join(match.lower() for match in _WORD.findall(text))


def write_lines(path: Path, texts_of_notebooks: Iterable[Iterable[str]]) -> list[int]:
    """Write all cells as lines; a notebook ends with a line that holds a tab.

    Returns:
        Number of lines with words of each notebook.
    """
    num_lines: list[int] = []
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for texts in texts_of_notebooks:
            lines = [line for text in texts if (line := words_of(text))]
            stream.writelines(f"{line}\n" for line in lines)
            stream.write(_END)
            num_lines.append(len(lines))
    return num_lines


def iter_documents(path: Path) -> Iterator[list[str]]:
    """Read the file back: the lines of one notebook after the other."""
    lines: list[str] = []
    with path.open(encoding="utf-8", newline="\n") as stream:
        for line in stream:
            if line == _END:
                yield lines
                lines = []
            else:
                lines.append(line.rstrip("\n"))
