"""Two people behind one JupyterHub, each in a Chromium of their own: fill and ghost text."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser, Page, expect

from .conftest import PASSWORD, USERS, Hub, Person

pytestmark = pytest.mark.browser

TIMEOUT_MS = 240_000
METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
SOURCE = (
    "idx => window.jupyterapp.shell.currentWidget.content.widgets[idx].model.sharedModel.source"
)


def write_notebook(hub: Hub, name: str) -> None:
    def cell(kind: str, source: str, number: int) -> dict[str, object]:
        code = {"outputs": [], "execution_count": None} if kind == "code" else {}
        return {
            "cell_type": kind,
            "id": f"c{number}",
            "metadata": {},
            "source": source,
        } | code

    texts = [("markdown", f"A secret of {name}."), ("code", ""), ("code", "")]
    cells = [cell(kind, text, number) for number, (kind, text) in enumerate(texts)]
    content = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    (hub.folder / name / "work.ipynb").write_text(json.dumps(content))


def open_page(browser: Browser, hub: Hub, name: str) -> Page:
    """Log in on the hub's page and wait for JupyterLab and its kernel."""
    write_notebook(hub, name)
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    page.goto(f"{hub.url}/hub/login?next=/user/{name}/lab/tree/work.ipynb")
    page.fill("#username_input", name)
    page.fill("#password_input", PASSWORD)
    page.click("#login_submit")
    page.wait_for_function(
        """() => {
            const panel = window.jupyterapp?.shell.currentWidget;
            return panel?.sessionContext?.session?.kernel?.status === "idle";
        }"""
    )
    return page


def click_cell(page: Page, idx: int) -> None:
    page.locator(f'.jp-Notebook [data-windowed-list-index="{idx}"] .cm-content').click()


def test_two_people_at_once(hub: Hub, people: list[Person], browser: Browser):
    # `people` has started both servers: the hub's page that waits for one needs npm's proxy.
    pages = [open_page(browser, hub, name) for name in USERS]
    hub.asked.clear()
    for page in pages:
        click_cell(page, 1)
    for page in pages:
        page.keyboard.press("Alt+j")
    for page in pages:
        panel = page.locator(".jp-jupyt5-panel")
        expect(panel).to_have_attribute("aria-busy", "false", timeout=TIMEOUT_MS)
        page.wait_for_timeout(350)  # a key right after another candidate has moved in takes nothing
        page.keyboard.press("Alt+j")
    for name, page in zip(USERS, pages, strict=True):
        page.wait_for_function(f"wanted => ({SOURCE})(1) === wanted", arg=f"owner = '{name}'")

    for page in pages:
        click_cell(page, 2)
        page.keyboard.press("Alt+\\")
    for name, page in zip(USERS, pages, strict=True):
        ghost = page.locator(".jp-GhostText, .jp-GhostText-lineSpacer").first
        expect(ghost).to_contain_text(f"owner = '{name}'", timeout=TIMEOUT_MS)
        page.keyboard.press("Tab")
        page.wait_for_function(f"wanted => ({SOURCE})(2) === wanted", arg=f"owner = '{name}'")

    assert {asked.owner for asked in hub.asked} == set(USERS)
    for asked in hub.asked:
        assert [name for name in USERS if f"of {name}." in asked.body] == [asked.owner]
    for person, page in zip(people, pages, strict=True):
        assert page.url.startswith(hub.url + person.base_url)
        assert "key-of-" not in page.content()
        page.context.close()
