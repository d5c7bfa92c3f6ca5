"""Results on stdout: text that may be corrected while it grows, and JSON."""

import json
import shutil
import sys

__all__ = ["LiveText", "note", "write_json", "write_text"]


def write_text(text: str) -> None:
    """Write a result on stdout, with a newline at its end."""
    sys.stdout.write(_encodable(text) + "\n")
    sys.stdout.flush()


def write_json(value: object) -> None:
    """Write a result on stdout as indented JSON."""
    write_text(json.dumps(value, indent=2, ensure_ascii=False))


def note(message: str) -> None:
    """Say on stderr what was done."""
    sys.stderr.write(_encodable(message) + "\n")


def _encodable(text: str) -> str:
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


class LiveText:
    """A text on a terminal that grows, and is written again where it changed further up."""

    def __init__(self) -> None:
        self._shown = ""

    def update(self, text: str) -> None:
        """Show the text as it is now."""
        text = _encodable(text)
        if not text.startswith(self._shown):
            width = max(shutil.get_terminal_size().columns, 1)
            lines = self._shown.split("\n")
            num_rows = sum(max(len(line) - 1, 0) // width for line in lines) + len(lines) - 1
            up = f"\x1b[{num_rows}A" if num_rows else ""
            sys.stdout.write(f"{up}\r\x1b[J")
            self._shown = ""
        sys.stdout.write(text[len(self._shown) :])
        sys.stdout.flush()
        self._shown = text

    def close(self) -> None:
        """End the last line."""
        sys.stdout.write("\n")
        sys.stdout.flush()
