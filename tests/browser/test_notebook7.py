"""The same extension in Notebook 7, on a page of its own."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

DEMO = Path(__file__).parents[2] / "notebooks" / "demo.ipynb"


def test_fill_and_undo(lab, browser, make_page):
    pytest.importorskip("notebook", minversion="7.3", reason="Notebook 7 is not installed")
    name = lab.add_notebook(DEMO)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(lab.page_url(f"notebooks/{name}"))
    notebook = make_page(page, name).wait()
    notebook.click(2)
    notebook.fill()
    notebook.expect_source(2, "answer = 42")
    notebook.press("Control+z")
    notebook.expect_source(2, "")
    # There is no status bar here.
    expect(page.locator("#menu-panel .jp-jupyt5-status button")).to_have_text("JuPyT5: ready")
    context.close()
