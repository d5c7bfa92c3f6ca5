"""Beside jupyter-collaboration: two pages on one notebook, each with a Chromium context of its own.

The package is in an environment beside `.venv` (scripts/setup_env.py makes it): the other browser
tests are to see a JupyterLab without it.
"""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
BESIDE = ROOT / ".venv" / "collaboration"
ANSWER = "answer = 42"
SLOW = "fake:slow=300&text=" + "+".join(f"w{number}" for number in range(100))
FILL_URL = re.compile(r"/jupyt5/api/fill(\?|$)")
CELLS = [
    {"cell_type": "markdown", "id": "m", "metadata": {}, "source": "Set it."},
    *(
        {
            "cell_type": "code",
            "id": cell_id,
            "metadata": {},
            "source": source,
            "execution_count": None,
            "outputs": [],
        }
        for cell_id, source in (("c", ""), ("t", "assert answer == 42"))
    ),
]


@pytest.fixture(scope="module")
def shared_lab(make_lab):
    """A JupyterLab in which documents are shared between pages."""
    own = next(BESIDE.glob("lib/python3*/site-packages/jupyter_server_ydoc"), None)
    if own is None:
        pytest.skip("jupyter-collaboration is not installed: make setup-dev")
    extensions = BESIDE / "share" / "jupyter" / "labextensions"
    return make_lab(
        "fake:text=answer+%3D+42",
        options=[f"--LabApp.extra_labextensions_path={extensions}"],
        python_path=own.parent,
        config_path=BESIDE / "etc" / "jupyter",
    )


@pytest.fixture
def pages(browser, shared_lab):
    """One notebook, open on two pages."""
    name = shared_lab.add_notebook(CELLS)
    contexts = [browser.new_context(viewport={"width": 1000, "height": 800}) for _ in "ab"]
    opened = []
    for idx, context in enumerate(contexts):
        page = context.new_page()
        page.set_default_timeout(60_000)
        # A workspace of its own: another one would bring back the notebooks of the test before.
        workspace = f"{name.partition('.')[0]}-{idx}"
        page.goto(shared_lab.page_url(f"lab/workspaces/{workspace}/tree/{name}"))
        opened.append(shared_lab.handle(page, name).wait())
    yield opened
    for context in contexts:
        context.close()


def answer_slowly(notebook) -> None:
    def rewrite(route) -> None:
        body = route.request.post_data_json | {"provider": SLOW}
        route.continue_(post_data=json.dumps(body))

    notebook.page.route(FILL_URL, rewrite)


def expect_idle(notebook) -> None:
    """The server forgets a cancelled request within one step of its generator."""
    for _ in range(60):
        if notebook.lab.call("jupyt5/api/status")["num_running"] == 0:
            return
        notebook.page.wait_for_timeout(50)
    pytest.fail("A request that nobody waits for is still running.")


SUGGESTIONS = {"panel": ("Alt+j", ".jp-jupyt5-panel"), "ghost text": ("Alt+\\", ".jp-GhostText")}


@pytest.mark.parametrize("how", SUGGESTIONS)
def test_an_edit_from_another_page_ends_a_suggestion(pages, how):
    mine, theirs = pages
    key, where = SUGGESTIONS[how]
    answer_slowly(mine)
    mine.click(1)
    mine.press(key)
    expect(mine.page.locator(where).first).to_contain_text("w1", timeout=30_000)
    assert mine.lab.call("jupyt5/api/status")["num_running"] == 1
    theirs.click(1)
    theirs.page.keyboard.type("# theirs")
    mine.expect_source(1, "# theirs")
    expect_idle(mine)
    expect(mine.page.locator(where)).to_have_count(0)
    mine.page.wait_for_timeout(700)  # two more steps of the generator, were it still at work
    expect(mine.page.locator(where)).to_have_count(0)
    assert mine.source(1) == theirs.source(1) == "# theirs"


def test_an_accepted_candidate_arrives_and_undo_takes_back_only_that(pages):
    mine, theirs = pages
    mine.click(1)
    mine.fill()
    mine.expect_source(1, ANSWER)
    theirs.expect_source(1, ANSWER)
    theirs.click(1)
    theirs.press("Control+End")
    theirs.page.keyboard.type("  # theirs")
    mine.expect_source(1, f"{ANSWER}  # theirs")
    mine.click(1)
    mine.press("Control+z")
    mine.expect_source(1, "  # theirs")
    theirs.expect_source(1, "  # theirs")
    mine.press("Control+Shift+z")
    theirs.expect_source(1, f"{ANSWER}  # theirs")
