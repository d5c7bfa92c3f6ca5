"""Where the assistant stands, as the reader sees it; and a server where it is turned off."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from .conftest import start_lab

pytestmark = pytest.mark.browser

DEMO = Path(__file__).parents[2] / "notebooks" / "demo.ipynb"
EMPTY_CELL = 2
STATUS = ".jp-jupyt5-status button"
WELL = re.compile("JuPyT5: (idle|ready)")  # by whether an earlier test has used the model
# Every state that is shown, with its tooltip, from now on.
RECORD = """() => {
    const button = document.querySelector(".jp-jupyt5-status button");
    window.states = [];
    new MutationObserver(() => {
        const { state } = button.dataset;
        if (states.at(-1)?.[0] !== state) {
            states.push([state, button.title]);
        }
    }).observe(button, {attributes: true});
}"""


def test_loading_busy_ready_and_offline(open_notebook, use_provider, page, page_requests):
    use_provider("fake:load=300&slow=50&text=a+b+c", "fake:fail")
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    with page.expect_response("**/jupyt5/api/status?*"):
        page.locator(STATUS).click()
    expect(page.locator(STATUS)).to_have_text(WELL)
    num_asked = count_asked(page_requests)
    page.evaluate(RECORD)
    notebook.press("Alt+j")
    notebook.wait_for_candidates()
    states = [state for state, _ in page.evaluate("states")]
    assert states == ["busy", "loading", "busy", "ready"]
    assert count_asked(page_requests) == num_asked  # the reply says it all
    notebook.press("Alt+r")
    page.wait_for_function("states.some(([state]) => state === 'offline')")
    assert "was asked to fail" in dict(page.evaluate("states"))["offline"]
    # The server's own model is well, and the page asks once to learn that.
    expect(page.locator(STATUS)).to_have_text(WELL)
    assert count_asked(page_requests) == num_asked + 1
    assert "Provider fake:text" in (page.locator(STATUS).get_attribute("aria-label") or "")


def count_asked(urls: list[str]) -> int:
    return sum("/jupyt5/api/status?" in url for url in urls)


@pytest.fixture(scope="module")
def lab_without(tmp_path_factory: pytest.TempPathFactory):
    """A server whose administrator has turned the assistant off."""
    folder = tmp_path_factory.mktemp("lab-off")
    (folder / "config").mkdir()
    config = {"JuPyT5App": {"enabled": False}}
    (folder / "config" / "jupyter_server_config.json").write_text(json.dumps(config))
    yield from start_lab(folder, "fake:")


def test_turned_off_by_the_administrator(lab_without, browser, make_page):
    name = lab_without.add_notebook(DEMO)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page: Page = context.new_page()
    page.set_default_timeout(120_000)
    filled: list[str] = []
    page.on("request", lambda request: filled.extend([request.url] * ("api/fill" in request.url)))
    page.goto(lab_without.page_url(f"lab/tree/{name}"))
    notebook = make_page(page, name).wait()
    expect(page.locator(STATUS)).to_have_text("JuPyT5: off")
    expect(page.locator(STATUS)).to_have_attribute("title", re.compile("administrator"))
    notebook.click(EMPTY_CELL)
    expect(notebook.cell(EMPTY_CELL).locator(".jp-cell-toolbar")).to_be_visible()
    expect(page.locator('[data-command="jupyt5:fill-cell"]:visible')).to_have_count(0)
    notebook.press("Alt+j")
    expect(page.locator(".Toastify__toast").first).to_contain_text("turned the assistant off")
    notebook.press("Alt+\\")
    page.keyboard.type("answer = ")
    notebook.press("Control+Shift+c")
    page.keyboard.type("JuPyT5")
    page.wait_for_timeout(500)
    expect(page.locator(".lm-CommandPalette-item", has_text="Fill")).to_have_count(0)
    assert filled == []
    context.close()
