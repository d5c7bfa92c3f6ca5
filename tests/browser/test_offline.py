"""JupyterLab with the assistant asks nothing of the outside, and obeys the reader's settings."""

import ast
import hashlib
import ipaddress
from datetime import UTC, datetime
from pathlib import Path

import pytest

import jupyt5

pytestmark = pytest.mark.browser

DEMO = Path(__file__).parents[2] / "notebooks" / "demo.ipynb"
EMPTY_CELL = 2


def is_local(address: object) -> bool:
    """Whether an address given to connect, or a name looked up, is on this machine."""
    host = address[0] if isinstance(address, tuple) else address
    if host in (None, "", "localhost", b"localhost"):
        return True
    if isinstance(host, bytes):
        host = host.decode()
    if not isinstance(host, str) or host.startswith(("/", "\0")):
        return True  # a socket in the file system
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def test_nothing_goes_out(open_notebook, lab, page, page_requests):
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    notebook.fill()
    notebook.expect_source(EMPTY_CELL, "answer = 42")
    notebook.press("Shift+Enter")  # the kernel, too
    assert "news" not in page.locator("body").inner_text()  # nor is it offered
    outside = {url for url in page_requests if not url.startswith((lab.url, "data:", "blob:"))}
    assert len(page_requests) > 50  # the page itself was recorded
    assert outside == set()
    addresses = [ast.literal_eval(line) for line in lab.connections.read_text().splitlines()]
    assert addresses  # the recorder works: the kernel's sockets are in it
    assert [address for address in addresses if not is_local(address)] == []


MAC = "Object.defineProperty(navigator, 'platform', {get: () => 'MacIntel'})"


def cell_metadata(page, idx: int) -> dict:
    """What the document has, also of what is not saved yet."""
    return page.evaluate(
        "idx => jupyterapp.shell.currentWidget.model.cells.get(idx).sharedModel.getMetadata()",
        idx,
    )


@pytest.fixture
def mac_page(lab, browser):
    """A page of a reader on a Mac, who has changed the settings."""
    lab.set_settings(
        provider="fake:echo",
        numContextCells=2,
        numFollowingCells=0,
        numGhostCandidates=3,
        recordProvenance=True,
    )
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_init_script(MAC)
    page = context.new_page()
    page.set_default_timeout(120_000)
    yield page
    context.close()
    lab.set_settings()


def test_settings_on_a_mac(lab, mac_page, make_page):
    name = lab.add_notebook(DEMO)
    page = mac_page
    page.goto(lab.page_url(f"lab/workspaces/mac/tree/{name}"))
    notebook = make_page(page, name).wait()
    notebook.click(EMPTY_CELL)
    before = cell_metadata(page, EMPTY_CELL)
    with page.expect_request("**/jupyt5/api/fill?*") as sent:
        notebook.press("Control+j")  # there, Alt and a letter are a letter
    notebook.wait_for_candidates()
    accept = notebook.panel.get_by_text("Accept", exact=True)
    assert "⌃ J" in (accept.get_attribute("title") or "")
    notebook.press("Control+j")
    body = sent.value.post_data_json
    assert (body["provider"], body["provenance"]) == ("fake:echo", True)
    assert (body["num_context_cells"], body["num_following_cells"]) == (2, 0)
    text = notebook.source(EMPTY_CELL - 1)
    notebook.expect_source(EMPTY_CELL, text)
    check_provenance(cell_metadata(page, EMPTY_CELL), text, "panel")
    notebook.press("Meta+z")  # one step
    notebook.expect_source(EMPTY_CELL, "")
    assert cell_metadata(page, EMPTY_CELL) == before
    notebook.press("Alt+\\")
    page.locator(".jp-GhostText").first.wait_for()
    notebook.press("Tab")
    notebook.expect_source(EMPTY_CELL, text)
    check_provenance(cell_metadata(page, EMPTY_CELL), text, "ghost text")
    notebook.press("Meta+z")
    notebook.expect_source(EMPTY_CELL, "")


def check_provenance(metadata: dict, text: str, via: str) -> None:
    (fill,) = metadata["jupyt5"]["fills"]
    assert (fill["via"], fill["accepted"]) == (via, "whole")
    assert fill["provider"] == "fake:echo"
    assert fill["jupyt5_version"] == jupyt5.__version__
    assert fill["verdict"] is None
    assert fill["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    age = datetime.now(UTC) - datetime.fromisoformat(fill["accepted_at"])
    assert abs(age.total_seconds()) < 60


def test_unset_settings_are_left_to_the_server(open_notebook, fill_requests):
    notebook = open_notebook(DEMO)
    notebook.click(EMPTY_CELL)
    notebook.fill()
    notebook.expect_source(EMPTY_CELL, "answer = 42")
    assert not {"provider", "num_context_cells", "num_following_cells"} & set(fill_requests[0])
