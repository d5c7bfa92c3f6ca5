"""The command "Fill This Cell" in a real JupyterLab, driven by a real Chromium."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

DEMO = Path(__file__).parents[2] / "notebooks" / "demo.ipynb"
EMPTY_CELL = 2  # below Markdown, above asserts
ANSWER = "answer = 42"
SLOW = "fake:slow=300&text=" + "+".join(f"w{number}" for number in range(100))


def cell(kind: str, source: str, **fields: object) -> dict[str, object]:
    """Make a cell as a notebook file has it."""
    record: dict[str, object] = {
        "cell_type": kind,
        "id": f"cell-{abs(hash((kind, source))) % 10**8}",
        "metadata": {},
        "source": source,
    }
    if kind == "code":
        record |= {"execution_count": None, "outputs": []}
    return record | fields


def test_shortcut_on_the_demo_notebook(open_notebook):
    notebook = open_notebook(DEMO)
    assert notebook.source(EMPTY_CELL) == ""
    notebook.click(EMPTY_CELL)
    notebook.fill()
    notebook.expect_source(EMPTY_CELL, ANSWER)
    notebook.press("Control+z")
    notebook.expect_source(EMPTY_CELL, "")
    notebook.press("Control+Shift+z")
    notebook.expect_source(EMPTY_CELL, ANSWER)


def test_toolbar_button(open_notebook):
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    button = notebook.cell(EMPTY_CELL).locator('[data-command="jupyt5:fill-cell"]')
    button.click()
    notebook.wait_for_candidates()
    notebook.panel.get_by_text("Accept", exact=True).click()
    notebook.expect_source(EMPTY_CELL, ANSWER)


def test_command_palette(open_notebook, page):
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    notebook.press("Control+Shift+c")
    page.keyboard.type("fill this cell")
    page.locator(".lm-CommandPalette-item", has_text="Fill This Cell").first.click()
    notebook.wait_for_candidates()
    notebook.press("Alt+j")
    notebook.expect_source(EMPTY_CELL, ANSWER)


def test_only_the_source_changes(open_notebook):
    output = {"output_type": "stream", "name": "stdout", "text": "1\n"}
    metadata = {"tags": ["keep"], "slideshow": {"slide_type": "slide"}, "collapsed": False}
    notebook = open_notebook(
        [
            cell("markdown", "Set the answer."),
            cell("code", "# here", metadata=metadata, execution_count=7, outputs=[output]),
            cell("code", "assert answer == 42"),
            cell("raw", "raw"),
        ]
    )
    notebook.click(0)
    notebook.press("Escape")
    before = notebook.save()
    notebook.click(1)
    notebook.press("Control+End")
    notebook.fill()
    notebook.expect_source(1, "# here\n" + ANSWER)
    after = notebook.save()
    assert "".join(after["cells"][1].pop("source")) == "# here\n" + ANSWER
    assert "".join(before["cells"][1].pop("source")) == "# here"
    assert after == before


def test_undo_brings_back_what_was_typed_and_the_cursor(open_notebook, page):
    notebook = open_notebook([cell("markdown", "Set it."), cell("code", "")])
    notebook.click(1)
    page.keyboard.type("# first\n\n# last", delay=5)
    notebook.press("ArrowUp")
    notebook.fill()
    notebook.expect_source(1, f"# first\n{ANSWER}\n# last")
    notebook.press("Control+z")
    notebook.expect_source(1, "# first\n\n# last")
    page.keyboard.type("X")
    notebook.expect_source(1, "# first\nX\n# last")


def test_the_open_document_counts_not_the_disk(open_notebook, use_provider, page):
    use_provider("fake:echo")
    notebook = open_notebook([cell("code", "a = 1"), cell("code", "")])
    notebook.click(0)
    notebook.press("Control+End")
    page.keyboard.type("0")
    notebook.click(1)
    notebook.fill()
    notebook.expect_source(1, "a = 10")
    assert "a = 10" not in notebook.path.read_text()


def test_escape_cancels_down_to_the_server(open_notebook, use_provider, lab, page):
    use_provider(SLOW)
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    notebook.press("Alt+j")
    preview = page.locator(".jp-jupyt5-panel")
    expect(preview).to_contain_text("w0 w1")
    assert notebook.source(EMPTY_CELL) == ""
    notebook.press("Escape")
    expect(preview).to_have_count(0)
    wait_until_idle(lab, page)
    assert notebook.source(EMPTY_CELL) == ""
    assert not notebook.is_dirty()


def test_typing_makes_an_answer_stale(open_notebook, use_provider, lab, page):
    use_provider(SLOW)
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    notebook.press("Alt+j")
    expect(page.locator(".jp-jupyt5-panel")).to_contain_text("w0")
    page.keyboard.type("mine")
    wait_until_idle(lab, page)
    notebook.expect_source(EMPTY_CELL, "mine")


@pytest.mark.parametrize(
    ("cells", "idx", "words"),
    [
        ([cell("code", "")], 0, "nothing around it"),
        ([cell("markdown", "List."), cell("code", "%%bash\nls")], 1, "%%bash"),
        ([cell("markdown", "List."), cell("raw", "")], 1, "raw cell"),
    ],
)
def test_refusals_say_why(open_notebook, page, cells, idx, words):
    notebook = open_notebook(cells)
    notebook.click(idx)
    notebook.press("Alt+j")
    expect(page.locator(".Toastify__toast-body, .Toastify__toast").first).to_contain_text(words)
    assert notebook.source(idx) == cells[idx]["source"]


def test_selection_is_replaced(open_notebook):
    notebook = open_notebook(
        [cell("markdown", "Set it."), cell("code", "raise NotImplementedError")]
    )
    notebook.click(1)
    notebook.press("Control+a")
    notebook.fill()
    notebook.expect_source(1, ANSWER)


def wait_until_idle(lab, page: Page) -> None:
    """The server forgets a cancelled request within one step of its generator."""
    for _ in range(40):
        if lab.call("jupyt5/api/status")["num_running"] == 0:
            return
        page.wait_for_timeout(50)
    pytest.fail("A cancelled request is still running.")
