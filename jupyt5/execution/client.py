"""nbclient with a short memory: the interpreter's last reply and the beginning of the outputs."""

import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from nbclient.client import NotebookClient
from nbclient.exceptions import CellExecutionComplete
from nbformat import NotebookNode

__all__ = ["BoundedClient", "make_plain"]

_OUTPUT_LIMIT_CHARS = 4000
_ANSI_CODE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class BoundedClient(NotebookClient):
    """Runs cells and keeps little, however much they print.

    Attributes:
        last_reply: Content of the interpreter's reply to the last cell; empty if there was none.
    """

    last_reply: Mapping[str, Any]
    _output_parts: list[str]
    _num_output_chars: int

    def prepare(self, limit_s: float | None = None) -> None:
        """Forget the last cell; to be called before each cell, with its wall seconds."""
        if limit_s is not None:
            # nbclient counts in whole seconds by its types only.
            self.timeout_func = cast("Callable[..., int]", partial(_return_limit, limit_s))
        self.last_reply = {}
        self._output_parts = []
        self._num_output_chars = 0
        self.on_cell_executed = self._keep_reply
        # Time-outs and deaths are findings here, not errors to be logged.
        cast("logging.Logger", self.log).setLevel(logging.CRITICAL)

    def process_message(
        self, msg: dict[str, Any], cell: NotebookNode, cell_index: int
    ) -> NotebookNode | None:
        """Take in one message of the cell: text up to a limit, and the end of its outputs.

        Widgets and other messages are not answered: their content is the sample's to choose.
        """
        del cell, cell_index
        content: object = msg["content"]
        if not isinstance(content, dict):
            return None
        content = cast("dict[str, object]", content)
        if msg["msg_type"] == "status" and content.get("execution_state") == "idle":
            raise CellExecutionComplete
        text = content.get("text")
        if msg["msg_type"] in {"execute_result", "display_data"}:
            data = content.get("data")
            is_bundle = isinstance(data, dict)
            text = cast("dict[str, object]", data).get("text/plain") if is_bundle else None
        if isinstance(text, str):
            room = _OUTPUT_LIMIT_CHARS - self._num_output_chars
            self._num_output_chars += len(text)
            if room > 0:
                self._output_parts.append(text[:room])
        return None

    def render_output(self) -> str:
        """Return the beginning of what the cell printed."""
        return make_plain("".join(self._output_parts))

    @property
    def num_dropped_chars(self) -> int:
        """How many printed characters were not kept."""
        return max(self._num_output_chars - _OUTPUT_LIMIT_CHARS, 0)

    def _keep_reply(
        self, *, cell: object, cell_index: int, execute_reply: Mapping[str, Any]
    ) -> None:
        del cell, cell_index
        content: object = execute_reply["content"]
        self.last_reply = cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _return_limit(limit_s: float, _cell: NotebookNode) -> float:
    return limit_s


def make_plain(text: str) -> str:
    """Take colour codes and control characters out: texts of samples end up on terminals.

    Lone surrogates become question marks, for no file could hold them.
    """
    encodable = text.encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub("", _ANSI_CODE.sub("", encodable))
