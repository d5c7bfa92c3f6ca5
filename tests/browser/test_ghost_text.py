"""Ghost text: offered at the cursor, accepted with Tab, taken back with one undo."""

from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

DEMO = Path(__file__).parents[2] / "notebooks" / "demo.ipynb"
EMPTY_CELL = 2
ANSWER = "answer = 42"


def ghost(page):
    return page.locator(".jp-GhostText, .jp-GhostText-lineSpacer").first


def ask_completer(notebook, page, name):
    """Press Tab until the completer opens: it waits a second for a kernel that begins to think."""
    item = page.locator(".jp-Completer-item", has_text=name).first
    for _ in range(10):
        notebook.press("Tab")
        with suppress(AssertionError):
            expect(item).to_be_visible(timeout=3000)
            return
    expect(item).to_be_visible()


def test_invoke_in_an_empty_cell_and_tab(open_notebook, page):
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    notebook.press("Alt+\\")
    expect(ghost(page)).to_contain_text(ANSWER, timeout=30_000)
    assert notebook.source(EMPTY_CELL) == ""
    assert not notebook.is_dirty()
    notebook.press("Tab")
    notebook.expect_source(EMPTY_CELL, ANSWER)
    notebook.press("Control+z")
    notebook.expect_source(EMPTY_CELL, "")
    notebook.press("Control+Shift+z")
    notebook.expect_source(EMPTY_CELL, ANSWER)


def test_while_typing(open_notebook, use_provider, page, fill_requests):
    use_provider("fake:text=answer+%3D+42")
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    page.keyboard.type("answer =")
    expect(ghost(page)).to_contain_text(" 42", timeout=30_000)
    notebook.press("Tab")
    notebook.expect_source(EMPTY_CELL, ANSWER)
    # What was typed is one step, what was accepted another.
    notebook.press("Control+z")
    notebook.expect_source(EMPTY_CELL, "answer =")
    assert fill_requests[-1]["prefix"] in ("answer =", ANSWER)


def test_offsets_count_characters(open_notebook, page, fill_requests):
    text = 'label = "😀😀😀"\nprint(la'
    notebook = open_notebook(
        [
            {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "Print it."},
            {
                "cell_type": "code",
                "id": "b",
                "metadata": {},
                "source": text,
                "execution_count": None,
                "outputs": [],
            },
        ]
    )
    notebook.click(1)
    notebook.press("Control+End")
    notebook.press("Alt+\\")
    page.wait_for_timeout(1000)
    assert (fill_requests[-1]["prefix"], fill_requests[-1]["suffix"]) == (text, "")


def test_a_newer_request_replaces_an_older_one(open_notebook, use_provider, page, fill_requests):
    use_provider("fake:slow=300&text=first+first+first", "fake:slow=50&text=second")
    page.evaluate(
        """() => {
            window.seenGhosts = new Set();
            window.ghostObserver = new MutationObserver(() => {
                for (const node of document.querySelectorAll(".jp-GhostText")) {
                    window.seenGhosts.add(node.textContent);
                }
            });
            window.ghostObserver.observe(
                document.body, {childList: true, subtree: true, characterData: true}
            );
        }"""
    )
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    notebook.press("Alt+\\")
    page.wait_for_timeout(50)
    notebook.press("Alt+\\")
    expect(ghost(page)).to_contain_text("second", timeout=30_000)
    page.wait_for_timeout(1500)  # by now the first answer would be complete
    seen = page.evaluate("() => { window.ghostObserver.disconnect(); return [...seenGhosts]; }")
    assert len(fill_requests) == 2
    assert not [text for text in seen if "first" in text]


def test_leaving_the_cell_cancels(open_notebook, use_provider, lab, page):
    use_provider("fake:slow=300&text=" + "+".join(f"w{number}" for number in range(100)))
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    notebook.press("Alt+\\")
    expect(ghost(page)).to_contain_text("w0", timeout=30_000)
    notebook.click(EMPTY_CELL + 1)
    page.wait_for_timeout(500)
    assert lab.call("jupyt5/api/status")["num_running"] == 0
    assert notebook.source(EMPTY_CELL) == ""
    assert not notebook.is_dirty()


def test_tab_and_shift_tab_indent_where_there_is_no_ghost_text(open_notebook, page):
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    page.keyboard.insert_text("numbers = 1\npri")
    notebook.press("Home")
    notebook.press("Tab")
    notebook.expect_source(EMPTY_CELL, "numbers = 1\n    pri")
    notebook.press("Shift+Tab")
    notebook.expect_source(EMPTY_CELL, "numbers = 1\npri")
    notebook.press("End")
    notebook.press("Escape")
    notebook.press("Enter")
    ask_completer(notebook, page, "print")
    notebook.press("Escape")
    expect(page.locator(".jp-Completer-item:visible")).to_have_count(0)
    notebook.expect_source(EMPTY_CELL, "numbers = 1\npri")
