"""What makes an answer stale aborts it down to the generator; typing is never disturbed."""

import string

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

SLOW = "fake:slow=300&text=" + "+".join(f"w{number}" for number in range(100))
CELLS = [
    {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "Set it."},
    *(
        {
            "cell_type": "code",
            "id": cell_id,
            "metadata": {},
            "source": source,
            "execution_count": None,
            "outputs": [],
        }
        for cell_id, source in (("b", ""), ("c", "assert x"))
    ),
]


def wait_until_idle(lab, page: Page) -> None:
    """The server forgets a cancelled request within one step of its generator."""
    for _ in range(60):
        if lab.call("jupyt5/api/status")["num_running"] == 0:
            return
        page.wait_for_timeout(50)
    pytest.fail("A request that nobody waits for is still running.")


def edit_remotely(notebook) -> None:
    """Change the cell in the shared document, as what comes from another reader's page does."""
    notebook.page.evaluate(
        """() => {
            const cell = window.jupyterapp.shell.currentWidget.content.widgets[1];
            const text = cell.model.sharedModel.ysource;
            text.doc.transact(() => text.insert(0, "# theirs"), "somebody else");
        }"""
    )


STALE = {
    "another cell": lambda notebook: notebook.click(2),
    "an edit": lambda notebook: notebook.page.keyboard.type("x"),
    "an edit by somebody else": edit_remotely,
    "Escape": lambda notebook: notebook.press("Escape"),
    "the cell cut": lambda notebook: notebook.page.evaluate(
        "void window.jupyterapp.commands.execute('notebook:cut-cell')"
    ),
    "the notebook closed": lambda notebook: notebook.page.evaluate(
        "window.jupyterapp.shell.currentWidget.dispose()"
    ),
}


@pytest.mark.parametrize("how", sorted(STALE.keys() - {"Escape"}))
def test_the_panel(open_notebook, use_provider, lab, page, how):
    use_provider(SLOW)
    notebook = open_notebook(CELLS)
    notebook.click(1)
    notebook.press("Alt+j")
    expect(notebook.panel).to_contain_text("w1", timeout=30_000)
    STALE[how](notebook)
    expect(notebook.panel).to_have_count(0)
    wait_until_idle(lab, page)


@pytest.mark.parametrize("how", ["another cell", "an edit by somebody else", "Escape"])
def test_ghost_text(open_notebook, use_provider, lab, page, how):
    use_provider(SLOW)
    notebook = open_notebook(CELLS)
    notebook.click(1)
    notebook.press("Alt+\\")
    expect(page.locator(".jp-GhostText").first).to_contain_text("w1", timeout=30_000)
    STALE[how](notebook)
    wait_until_idle(lab, page)


def test_a_newer_fill_replaces_an_older_one(open_notebook, use_provider, lab, page, fill_requests):
    use_provider(SLOW, "fake:text=second")
    notebook = open_notebook(CELLS)
    notebook.click(1)
    notebook.press("Alt+j")
    expect(notebook.panel).to_contain_text("w1", timeout=30_000)
    notebook.press("Alt+r")
    expect(notebook.panel).to_contain_text("second", timeout=30_000)
    notebook.wait_for_candidates()
    wait_until_idle(lab, page)
    assert notebook.panel.count() == 1
    assert len({request["request_id"] for request in fill_requests}) == 2
    notebook.press("Alt+j")
    notebook.expect_source(1, "second")


def test_escape_before_ghost_text_is_there(open_notebook, use_provider, lab, page):
    use_provider("fake:slow=1500&text=late+late")
    notebook = open_notebook(CELLS)
    notebook.click(1)
    with page.expect_request("**/jupyt5/api/fill?*"):
        notebook.press("Alt+\\")
    notebook.press("Escape")
    wait_until_idle(lab, page)
    page.wait_for_timeout(1700)
    expect(page.locator(".jp-GhostText")).to_have_count(0)


def test_typing_while_suggestions_arrive(open_notebook, use_provider, page, fill_requests):
    use_provider(SLOW)
    notebook = open_notebook(CELLS)
    notebook.click(1)
    # No brackets and quotes, which the editor closes, and no line ends, which it indents.
    text = ((string.ascii_lowercase + " = 1 + ") * 10)[:200]
    # While somebody types, JupyterLab asks by itself in pauses only; the key asks at once.
    for start in range(0, 200, 40):
        page.keyboard.type(text[start : start + 20], delay=20)
        notebook.press("Alt+\\")
        page.keyboard.type(text[start + 20 : start + 40], delay=20)
        notebook.press("Alt+\\")
        expect(page.locator(".jp-GhostText").first).to_contain_text("w0", timeout=30_000)
    notebook.press("Escape")
    notebook.expect_source(1, text)
    assert len(fill_requests) >= 10
