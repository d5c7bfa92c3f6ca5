"""Prompts and chats as cells: what `jupyt5 serve` makes of them."""

from __future__ import annotations

import pytest

from jupyt5.infilling import render_prompt
from jupyt5.notebook import Cell
from jupyt5.providers import FillRequest
from jupyt5.providers.texts import estimate_tokens, plan_text
from jupyt5.server.openai.cells import Turn, Window, read_chat, read_script


def shape(window: Window) -> list[tuple[str, str]]:
    return [(cell.kind, cell.source) for cell in window.cells]


def test_a_plain_script_is_one_cell():
    window = read_script("import os\n\ndef f():\n    ", "\n\nprint(f())\n")
    assert shape(window) == [("code", "")]
    assert (window.target_idx, window.prefix) == (0, "import os\n\ndef f():\n    ")
    assert window.suffix == "\n\nprint(f())\n"


def test_a_script_in_percent_format_is_its_cells():
    window = read_script(
        "import os\n\n# %% [markdown]\n# # Title\n#\n# Text.\n\n# %% name\nx = 1\n\n# %%\ny = ",
        "+ 1\n\n# %%\nassert y\n\n# %% [md]\n# End.\n",
    )
    assert shape(window) == [
        ("code", "import os"),
        ("markdown", "# Title\n\nText."),
        ("code", "x = 1"),
        ("code", ""),
        ("code", "assert y"),
        ("markdown", "End."),
    ]
    assert (window.target_idx, window.prefix, window.suffix) == (3, "y = ", "+ 1")


def test_a_mark_inside_a_line_is_none():
    assert len(read_script("x = 1  # %% not a cell\n'# %%'\n", "").cells) == 1


CELLS = (
    Cell(None, "code", "import math\nr = 2"),
    Cell(None, "markdown", "# Area\n\nOf a *circle*."),
    Cell(None, "code", ""),
    Cell(None, "code", "assert round(area) == 13\n\nprint(area)"),
)


@pytest.mark.parametrize("kind", ["code", "markdown"])
@pytest.mark.parametrize("prefix", ["", "# the area\n", "area ="])
@pytest.mark.parametrize("suffix", ["", "\nprint(1)"])
@pytest.mark.parametrize("num_following_cells", [0, 1])
def test_what_our_own_client_sends_comes_back_as_it_was(
    kind: str, prefix: str, suffix: str, num_following_cells: int
):
    cells = list(CELLS)
    cells[2] = Cell(None, kind, "")  # type: ignore[arg-type]
    request = FillRequest(
        cells=tuple(cells),
        target_idx=2,
        prefix=prefix,
        suffix=suffix,
        num_following_cells=num_following_cells,
    )
    prompt = render_prompt(*plan_text(request, estimate_tokens, budget_tokens=999), infill=True)
    window = read_script(prompt.before, prompt.after)
    expected = cells[: 3 + num_following_cells]
    assert shape(window) == [(cell.kind, cell.source) for cell in expected]
    assert (window.target_idx, window.prefix, window.suffix) == (2, prefix, suffix)


def test_a_chat_is_prose_and_code():
    window = read_chat(
        [
            Turn("system", "You are helpful."),
            Turn("user", "I have this:\n\n```python\nx = 1\n```\nDouble it."),
        ]
    )
    assert shape(window) == [
        ("markdown", "I have this:"),
        ("code", "x = 1"),
        ("markdown", "Double it."),
        ("code", ""),
    ]
    assert (window.target_idx, window.prefix) == (3, "")


def test_a_begun_answer_is_gone_on_with():
    window = read_chat([Turn("user", "Add."), Turn("assistant", "```python\ndef add(a, b):\n")])
    assert window.prefix == "def add(a, b):\n"
    assert window.target_idx == 1
