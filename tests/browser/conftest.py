"""A real JupyterLab, and a real Chromium that looks at it."""

import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, Route, expect

from .lab_folder import (
    CONNECTIONS,
    TOKEN,
    build_command,
    build_environment,
    find_port,
    prepare_folder,
)

TIMEOUT_MS = 60_000
# The panel takes no key for a candidate that came to its place less than 300 ms ago.
SETTLE_MS = 350
PLUGIN = "jupyt5-labextension:plugin"
# JupyterLab adds the time to the address, against caches.
FILL_URL = re.compile(r"/jupyt5/api/fill(\?|$)")
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


@dataclass(frozen=True)
class Lab:
    """A running server."""

    url: str
    root: Path
    connections: Path

    def page_url(self, path: str) -> str:
        return f"{self.url}{path}?token={TOKEN}"

    def add_notebook(self, content: Path | list[dict[str, Any]]) -> str:
        """Put a notebook (a file, or a list of cells) into the server's folder; return its name."""
        name = f"test-{time.monotonic_ns()}.ipynb"
        if isinstance(content, Path):
            shutil.copy(content, self.root / name)
        else:
            notebook = {"cells": content, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
            (self.root / name).write_text(json.dumps(notebook))
        return name

    def handle(self, page: Page, name: str) -> "NotebookPage":
        """Handle a notebook that a test opened on a page of its own."""
        return NotebookPage(self, page, name)

    def call(self, path: str, *, method: str = "GET", body: object = None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            raw = response.read()
        return json.loads(raw) if raw else None

    def set_settings(self, **settings: object) -> None:
        """Change the reader's settings of the extension, as the settings editor does."""
        body = {"raw": json.dumps(settings)}
        self.call(f"lab/api/settings/{PLUGIN}", method="PUT", body=body)


class NotebookPage:
    """An open notebook, with what a reader does to it."""

    def __init__(self, lab: Lab, page: Page, name: str) -> None:
        self.lab, self.page, self.path = lab, page, lab.root / name

    def cell(self, idx: int) -> Locator:
        # Not the nth one in the page: cells out of view are not in it.
        return self.page.locator(f'.jp-Notebook [data-windowed-list-index="{idx}"]')

    def open(self) -> "NotebookPage":
        self.page.evaluate(
            """async path => {
                await window.jupyterapp.commands.execute('docmanager:open', {path});
            }""",
            self.path.name,
        )
        return self.wait()

    def wait(self) -> "NotebookPage":
        """Wait until all cells are there and the kernel has said what language it speaks."""
        self.page.wait_for_function(
            """() => {
                const panel = window.jupyterapp?.shell.currentWidget;
                const numCells = panel?.content?.model?.cells.length;
                return (
                    numCells > 0 &&
                    panel.content.widgets.length === numCells &&
                    panel.sessionContext.session?.kernel?.status === "idle"
                );
            }"""
        )
        # JupyterLab writes what the kernel says of itself into the metadata; a test starts after.
        self.page.evaluate(
            """async () => {
                const panel = window.jupyterapp.shell.currentWidget;
                await panel.sessionContext.session.kernel.info;
                await new Promise(resolve => setTimeout(resolve, 200));
                await panel.context.save();
            }"""
        )
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for()
        return self

    def editor(self, idx: int) -> Locator:
        return self.cell(idx).locator(".cm-content")

    def click(self, idx: int) -> None:
        cell = self.cell(idx)
        cell.scroll_into_view_if_needed()
        editor = self.editor(idx)
        (editor if editor.is_visible() else cell).click()
        expect(cell).to_have_class(re.compile("jp-mod-active"))

    @property
    def panel(self) -> Locator:
        """The candidates under the cell that is being filled."""
        return self.page.locator(".jp-jupyt5-panel")

    def wait_for_candidates(self) -> None:
        expect(self.panel).to_have_attribute("aria-busy", "false", timeout=TIMEOUT_MS)

    def fill(self) -> None:
        """Ask for candidates for the active cell, and accept the first."""
        self.press("Alt+j")
        self.wait_for_candidates()
        self.accept()

    def accept(self) -> None:
        """Accept, as somebody who has seen which candidate was put first at the end."""
        self.page.wait_for_timeout(SETTLE_MS)
        self.press("Alt+j")

    def source(self, idx: int) -> str:
        """The cell's source as the document has it; ghost text is not in it."""
        return self.page.evaluate(
            """idx => {
                const panel = window.jupyterapp.shell.currentWidget;
                return panel.content.widgets[idx].model.sharedModel.getSource();
            }""",
            idx,
        )

    def expect_source(self, idx: int, wanted: str, *, within_s: float = 30) -> None:
        end = time.monotonic() + within_s
        while (found := self.source(idx)) != wanted and time.monotonic() < end:
            self.page.wait_for_timeout(50)
        assert found == wanted

    def is_dirty(self) -> bool:
        return self.page.evaluate("window.jupyterapp.shell.currentWidget.context.model.dirty")

    def press(self, keys: str) -> None:
        self.page.keyboard.press(keys)

    def save(self) -> dict[str, Any]:
        """Save, and return what is then on disk."""
        self.press("Control+s")
        end = time.monotonic() + 15
        while self.is_dirty() and time.monotonic() < end:
            self.page.wait_for_timeout(50)
        return json.loads(self.path.read_text())


def start_lab(
    folder: Path,
    provider: str,
    *,
    base_url: str = "/",
    options: Sequence[str] = (),
    python_path: Path | None = None,
    config_path: Path | None = None,
) -> Iterator[Lab]:
    """Run a server whose settings, workspaces and notebooks all lie in a folder.

    Args:
        folder: An empty one.
        provider: URI of what answers.
        base_url: Path that the server lives under.
        options: More for JupyterLab's command line.
        python_path: More packages than the tests' own.
        config_path: Where those have their configuration.
    """
    prepare_folder(folder)
    env = build_environment(folder, python_path, config_path)
    port = find_port()
    options = [f"--JuPyT5App.provider={provider}", f"--ServerApp.base_url={base_url}", *options]
    command = build_command(folder, port, options)
    log = folder / "server.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=sink, stderr=sink)
    lab = Lab(f"http://127.0.0.1:{port}{base_url}", folder / "root", folder / CONNECTIONS)
    try:
        wait_for_server(lab, process, log)
        yield lab
    finally:
        process.terminate()
        process.wait(30)


def wait_for_server(lab: Lab, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            lab.call("jupyt5/api/status")
        except OSError:
            time.sleep(0.2)
        else:
            return
    pytest.fail("JupyterLab did not start:\n" + log.read_text()[-3000:])


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server that answers ``answer = 42`` unless a test asks for another provider."""
    yield from start_lab(tmp_path_factory.mktemp("lab"), "fake:text=answer+%3D+42")


@pytest.fixture(scope="module")
def make_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Lab]]:
    """Start a server of one's own, see ``start_lab``; it ends with the module's tests."""
    with ExitStack() as stack:

        def make(provider: str, **options: Any) -> Lab:
            folder = tmp_path_factory.mktemp("lab")
            return stack.enter_context(contextmanager(start_lab)(folder, provider, **options))

        yield make


@pytest.fixture(scope="session")
def page_requests() -> list[str]:
    """The address of everything that JupyterLab's page has asked for."""
    return []


@pytest.fixture(scope="session")
def jupyterlab(browser: Browser, lab: Lab, page_requests: list[str]) -> Iterator[Page]:
    """JupyterLab, loaded once: on a busy machine that takes longer than any test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    page.on("request", lambda request: page_requests.append(request.url))
    page.goto(lab.page_url("lab"))
    page.wait_for_function("window.jupyterapp?.restored.then(() => true)", timeout=120_000)
    yield page
    context.close()


@pytest.fixture
def page(jupyterlab: Page, lab: Lab) -> Iterator[Page]:
    """JupyterLab without open notebooks, running kernels or left-over notifications."""
    yield jupyterlab
    jupyterlab.unroute_all()
    jupyterlab.evaluate(
        """() => {
            for (const widget of [...window.jupyterapp.shell.widgets("main")]) {
                if (widget.context) {
                    widget.context.model.dirty = false;
                    widget.dispose();
                }
            }
            window.jupyterapp.commands.execute("apputils:dismiss-notifications");
        }"""
    )
    for session in lab.call("api/sessions"):
        lab.call(f"api/sessions/{session['id']}", method="DELETE")


@pytest.fixture
def use_provider(page: Page) -> Callable[..., None]:
    """Let providers answer this test's requests: the first the first, the last all others."""

    def use(*uris: str) -> None:
        left = list(uris)

        def rewrite(route: Route) -> None:
            uri = left.pop(0) if len(left) > 1 else left[0]
            body = json.loads(route.request.post_data or "{}")
            route.continue_(post_data=json.dumps(body | {"provider": uri}))

        page.route(FILL_URL, rewrite)

    return use


@pytest.fixture
def fill_requests(page: Page) -> Iterator[list[dict[str, Any]]]:
    """The fill requests that the page sends."""
    seen: list[dict[str, Any]] = []

    def note(request: Request) -> None:
        if request.method == "POST" and FILL_URL.search(request.url):
            seen.append(json.loads(request.post_data or "{}"))

    page.on("request", note)
    yield seen
    page.remove_listener("request", note)


@pytest.fixture
def open_notebook(lab: Lab, page: Page) -> Callable[..., NotebookPage]:
    """Put a notebook (a file, or a list of cells) into the server's folder and open it."""

    def open_it(content: Path | list[dict[str, Any]]) -> NotebookPage:
        return NotebookPage(lab, page, lab.add_notebook(content)).open()

    return open_it


@pytest.fixture(autouse=True)
def jp_asyncio_loop() -> None:
    """Replace pytest-jupyter's loop, which cannot be closed while playwright's is running."""


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """Replace pytest-jupyter's clean-up: the server here is a process of its own."""


@pytest.fixture
def make_page(lab: Lab) -> Callable[[Page, str], NotebookPage]:
    """Handle a notebook that a test opened on a page of its own."""
    return lambda page, name: NotebookPage(lab, page, name)
