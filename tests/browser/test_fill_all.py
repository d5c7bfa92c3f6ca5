"""All empty solution cells at once, Markdown cells, and the off switch of a notebook."""

import json

import pytest
from playwright.sync_api import Page, Route, expect

from .conftest import FILL_URL

pytestmark = pytest.mark.browser

ANSWER = "answer = 42"
SLOW = "fake:slow=300&text=" + "+".join(f"w{number}" for number in range(100))
SOLUTION = {"nbgrader": {"solution": True, "grade": False, "schema_version": 3}}
TOAST = ".Toastify__toast"
PROGRESS = ".jp-jupyt5-progress"


def cell(kind: str, source: str, cell_id: str, **metadata: object) -> dict[str, object]:
    record: dict[str, object] = {
        "cell_type": kind,
        "id": cell_id,
        "metadata": metadata,
        "source": source,
    }
    return record | ({"execution_count": None, "outputs": []} if kind == "code" else {})


STUB = "def f():\n    # YOUR CODE HERE\n    raise NotImplementedError()"
HOMEWORK = [
    cell("markdown", "Write f.", "a"),
    cell(
        "code", "def f():\n    # YOUR CODE HERE\n    raise NotImplementedError()", "b", **SOLUTION
    ),
    cell("code", "assert f() is None", "c"),
    cell("code", "", "d"),
    cell("markdown", "Set the answer.", "e"),
    cell("code", "", "f", **SOLUTION),
]


# As the panel's box does; a consent is one user's, so the page has to give it.
ALLOW_TRYING = """async path => {
    const response = await fetch("/jupyt5/api/consent", {
        method: "POST",
        headers: {"X-XSRFToken": /_xsrf=([^;]*)/.exec(document.cookie)[1]},
        body: JSON.stringify({notebook_path: path, allowed: true}),
    });
    return response.json();
}"""


def run(page: Page, command: str) -> None:
    page.evaluate("command => void window.jupyterapp.commands.execute(command)", command)


def wait_for_toast(page: Page, words: str) -> None:
    """Wait for a notification; those of the tests before may still be fading."""
    expect(page.locator(TOAST, has_text=words).first).to_be_visible(timeout=30_000)


def test_all_empty_solution_cells(open_notebook, page):
    notebook = open_notebook(HOMEWORK)
    notebook.click(3)
    run(page, "jupyt5:fill-all")
    notebook.expect_source(5, ANSWER)
    notebook.expect_source(1, f"def f():\n    {ANSWER}")
    wait_for_toast(page, "Filled 2 of 2")
    assert [notebook.source(idx) for idx in (0, 2, 3)] == ["Write f.", "assert f() is None", ""]
    notebook.click(1)
    notebook.press("Control+z")
    notebook.expect_source(1, STUB)


@pytest.mark.parametrize("code", ["timeout", "cancelled"])
def test_half_a_candidate_is_left_out(open_notebook, page, code):
    def answer(route: Route) -> None:
        common = {"request_id": json.loads(route.request.post_data or "")["request_id"]}
        lines = [
            common | {"type": "delta", "hypothesis_idx": 0, "text": "return ("},
            common | {"type": "error", "code": code, "message": "It took too long."},
        ]
        body = "".join(json.dumps(line) + "\n" for line in lines)
        route.fulfill(body=body, content_type="application/x-ndjson")

    notebook = open_notebook(HOMEWORK)
    page.route(FILL_URL, answer)
    notebook.click(3)
    run(page, "jupyt5:fill-all")
    wait_for_toast(page, "Filled 0 of 2")
    assert (notebook.source(1), notebook.source(5)) == (STUB, "")


def test_where_trying_is_allowed_the_best_passing_candidate_is_taken(
    open_notebook, use_provider, page, fill_requests
):
    use_provider("fake:text=return+1&text=return+None&text=pass&logprob=-0.5")
    notebook = open_notebook(HOMEWORK)
    if not page.evaluate(ALLOW_TRYING, notebook.path.name)["available"]:
        pytest.skip("This machine cannot wall a candidate in.")
    notebook.click(3)
    run(page, "jupyt5:fill-all")
    wait_for_toast(page, "Filled 2 of 2 solution cells. 1 of 1 tried pass the next cell.")
    assert notebook.source(1) == "def f():\n    return None"
    # Nothing stands below the last cell that could judge it.
    assert [(sent["n"], "try" in sent) for sent in fill_requests] == [(3, True), (1, False)]


def test_stop_reaches_the_generator(open_notebook, use_provider, page, lab):
    use_provider("fake:text=first", SLOW)
    notebook = open_notebook(HOMEWORK)
    notebook.click(0)
    run(page, "jupyt5:fill-all")
    expect(page.locator(PROGRESS)).to_contain_text("cell 2 of 2", timeout=30_000)
    page.locator(PROGRESS).get_by_role("button", name="Stop").click()
    wait_for_toast(page, "Stopped. Filled 1 of 2")
    expect(page.locator(PROGRESS)).to_have_count(0)
    assert notebook.source(5) == ""
    page.wait_for_timeout(500)
    assert lab.call("jupyt5/api/status")["num_running"] == 0


def test_a_cell_edited_meanwhile_is_left_to_its_author(open_notebook, use_provider, page):
    use_provider("fake:slow=300&text=a+b+c+d+e+f", "fake:text=second")
    notebook = open_notebook(HOMEWORK)
    notebook.click(1)
    notebook.press("Control+End")
    run(page, "jupyt5:fill-all")
    expect(page.locator(PROGRESS)).to_contain_text("cell 1 of 2")
    page.wait_for_timeout(400)
    page.keyboard.type(" # mine")
    notebook.expect_source(5, "second")
    assert notebook.source(1) == STUB + " # mine"


def test_nothing_to_fill(open_notebook, page):
    open_notebook([cell("code", "a = 1", "a")]).click(0)
    run(page, "jupyt5:fill-all")
    wait_for_toast(page, "no empty solution cell")


def test_menu(open_notebook, page):
    open_notebook(HOMEWORK).click(3)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.locator(".lm-Menu-item", has_text="JuPyT5").hover()
    entry = page.locator(".lm-Menu-item", has_text="Fill All Empty Solution Cells")
    expect(entry).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")


def test_markdown_cell_describes_the_code_below(open_notebook, use_provider, fill_requests):
    use_provider("fake:text=Adds+**two**+numbers.")
    notebook = open_notebook(
        [cell("markdown", "", "a"), cell("code", "def add(a, b): return a + b", "b")]
    )
    notebook.click(0)
    notebook.fill()
    notebook.expect_source(0, "Adds **two** numbers.")
    sent = fill_requests[-1]
    assert [each["kind"] for each in sent["cells"]] == ["markdown", "code"]
    assert sent["target_idx"] == 0


def test_the_off_switch_of_a_notebook(open_notebook, lab, page, fill_requests):
    notebook = open_notebook(HOMEWORK)
    notebook.click(3)
    button = notebook.cell(3).locator('[data-command="jupyt5:fill-cell"]')
    status = page.locator(".jp-jupyt5-status button")
    expect(button).to_be_visible()
    run(page, "jupyt5:toggle-notebook")
    expect(button).not_to_be_visible()
    expect(status).to_have_text("JuPyT5: off")
    assert notebook.save()["metadata"]["jupyt5"] == {"enabled": False}
    notebook.click(3)
    notebook.press("Alt+j")
    wait_for_toast(page, "switched off in this notebook")
    notebook.press("Alt+\\")
    page.keyboard.type("answer = ")
    page.wait_for_timeout(1000)
    run(page, "jupyt5:fill-all")
    assert fill_requests == []
    run(page, "jupyt5:toggle-notebook")
    expect(status).not_to_have_text("JuPyT5: off")
    assert "jupyt5" not in notebook.save()["metadata"]
