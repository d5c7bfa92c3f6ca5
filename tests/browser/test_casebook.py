"""Casebook A2, A6 to A8, A10 to A12 in a real JupyterLab, as far as no other file has them."""

import ast
import json
import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, Route, expect

pytestmark = pytest.mark.browser

ANSWER = "answer = 42"
TOAST = ".Toastify__toast"
FILL_URL = re.compile(r"/jupyt5/api/fill(\?|$)")


def cell(kind: str, source: str, cell_id: str, **metadata: object) -> dict[str, object]:
    record: dict[str, object] = {
        "cell_type": kind,
        "id": cell_id,
        "metadata": metadata,
        "source": source,
    }
    return record | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def says(raw: str) -> str:
    """A provider whose model says this, before it is cleaned."""
    return "fake:" + urlencode({"text": raw})


def of_the_panel(requests: list[dict]) -> list[dict]:
    """Without those for ghost text, which may come at any time."""
    return [request for request in requests if request["n"] > 1]


def sources(request: dict) -> list[str]:
    return [each["source"] for each in request["cells"]]


INDENTS = {
    "header": ("def area(r):", "return 3.14 * r * r", "\n    return 3.14 * r * r"),
    "indented already": ("def area(r):\n    ", "    return 3.14 * r", "return 3.14 * r"),
    "comment": ("# count the rows", "n = len(df)", "\nn = len(df)"),
    "tab": (
        "for a in b:\n\t",
        "    x = a\n    if x:\n        print(x)",
        "x = a\n\tif x:\n\t\tprint(x)",
    ),
    "several lines": (
        "def f(n):",
        "for i in range(n):\n    if i:\n        print(i)\nreturn n",
        "\n    for i in range(n):\n        if i:\n            print(i)\n    return n",
    ),
}


def test_first_newline_and_indent(open_notebook, page):
    """A2: what is shown as the candidate is what stands in the cell, and Python reads it."""
    answers = {prefix: says(raw) for prefix, raw, _ in INDENTS.values()}

    def answer(route: Route) -> None:
        body = json.loads(route.request.post_data or "{}")
        provider = answers.get(body["prefix"], "fake:text=")  # ghost text may be asked for, too
        route.continue_(post_data=json.dumps(body | {"provider": provider}))

    page.route(FILL_URL, answer)
    notebook = open_notebook(
        [cell("code", prefix, f"c{idx}") for idx, (prefix, _, _) in enumerate(INDENTS.values())]
    )
    for idx, (prefix, _, item) in enumerate(INDENTS.values()):
        notebook.click(idx)
        notebook.press("Control+End")
        notebook.fill()
        notebook.expect_source(idx, prefix + item)
        ast.parse(notebook.source(idx))


def test_hidden_cells_and_a_late_edit_are_context(open_notebook, page, fill_requests):
    """A6: from the open document as it is at that moment."""
    notebook = open_notebook(
        [
            cell("code", "def add(a, b): return a", "a", jupyter={"source_hidden": True}),
            cell("markdown", "Call it `add3`.", "b"),
            cell("code", "", "c"),
            cell("code", "assert add3(1, 2, 3) == 6", "d", jupyter={"source_hidden": True}),
        ]
    )
    notebook.click(2)
    page.evaluate(
        """async () => {
            const {shell, commands} = window.jupyterapp;
            const {widgets} = shell.currentWidget.content;
            const text = widgets[0].model.sharedModel;
            text.updateSource(text.getSource().length, text.getSource().length, " + b");
            await new Promise(resolve => setTimeout(resolve, 10));
            await commands.execute("jupyt5:fill-cell");
        }"""
    )
    notebook.wait_for_candidates()
    assert sources(fill_requests[-1]) == [
        "def add(a, b): return a + b",
        "Call it `add3`.",
        "",
        "assert add3(1, 2, 3) == 6",
    ]
    assert json.loads(notebook.path.read_text())["cells"][0]["source"] != sources(fill_requests[-1])


def test_pictures_and_outputs_stay_at_home(open_notebook, fill_requests):
    """A7: 2 MiB in a Markdown cell, the same as an attachment, 5 MiB of output."""
    picture = "A" * (2 << 20)
    words = cell("markdown", f"Before ![p](data:image/png;base64,{picture}) after.", "m")
    words["attachments"] = {"p.png": {"image/png": picture}}
    printed = cell("code", "show(p)", "c")
    output = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "B" * (5 << 20)}}
    printed["outputs"] = [output]
    notebook = open_notebook([words, printed, cell("code", "", "t")])
    notebook.click(2)
    notebook.fill()
    notebook.expect_source(2, ANSWER)
    (request,) = of_the_panel(fill_requests)
    assert sources(request) == ["Before ![p]() after.", "show(p)", ""]
    assert max(len(json.dumps(each)) for each in fill_requests) < 65_536


def test_behind_a_prefix(browser, make_lab):
    """A8: every address is built from the server's settings."""
    lab = make_lab(says(ANSWER), base_url="/user/ana/")
    name = lab.add_notebook([cell("markdown", "Set it.", "m"), cell("code", "", "c")])
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(120_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(lab.page_url(f"lab/tree/{name}"))
    notebook = lab.handle(page, name).wait()
    notebook.click(1)
    notebook.fill()
    notebook.expect_source(1, ANSWER)
    ours = [url for url in asked if "jupyt5/api" in url]
    assert ours
    assert all(url.startswith(f"{lab.url}jupyt5/api/") for url in ours)
    context.close()


def lose_kernel(notebook, **metadata: object) -> None:
    """End the notebook's kernel; metadata given replace the notebook's."""
    for session in notebook.lab.call("api/sessions"):
        notebook.lab.call(f"api/sessions/{session['id']}", method="DELETE")
    notebook.page.wait_for_function(
        "() => !window.jupyterapp.shell.currentWidget.sessionContext.session"
    )
    if metadata:
        notebook.page.evaluate(
            """metadata => {
                window.jupyterapp.shell.currentWidget.content.model.sharedModel.metadata = metadata;
            }""",
            metadata,
        )


def test_without_a_kernel_the_metadata_tell_the_language(open_notebook, page, fill_requests):
    """A10: a Python notebook is filled, one in R is not, and says so."""
    notebook = open_notebook([cell("markdown", "Set it.", "m"), cell("code", "", "c")])
    lose_kernel(notebook)
    notebook.click(1)
    notebook.fill()
    notebook.expect_source(1, ANSWER)
    notebook.press("Control+z")
    lose_kernel(notebook, kernelspec={"name": "ir", "display_name": "R", "language": "R"})
    notebook.press("Alt+j")
    expect(page.locator(TOAST, has_text="This notebook is in R").first).to_be_visible()
    assert len(of_the_panel(fill_requests)) == 1
    assert notebook.source(1) == ""


def test_no_code_in_markdown_unless_asked(open_notebook, page, fill_requests):
    """A10: typing prose brings no ghost text."""
    notebook = open_notebook([cell("code", "x = 1", "c"), cell("markdown", "", "m")])
    notebook.click(1)
    page.keyboard.type("The answer is")
    notebook.press("Alt+\\")
    page.wait_for_timeout(1000)
    assert fill_requests == []
    assert page.locator(".jp-GhostText").count() == 0


def test_a_dropped_line_is_told_and_the_next_request_works(open_notebook, page, fill_requests):
    """A11: no reload, and nothing sent twice."""
    notebook = open_notebook([cell("markdown", "Set it.", "m"), cell("code", "", "c")])
    notebook.click(1)
    page.route("**/jupyt5/api/fill?*", lambda route: route.abort("connectionreset"), times=1)
    notebook.press("Alt+j")
    expect(page.locator(TOAST, has_text="did not answer").first).to_be_visible()
    expect(notebook.panel).to_have_count(0)
    notebook.fill()
    notebook.expect_source(1, ANSWER)
    assert len(of_the_panel(fill_requests)) == 2


def run_cell(page: Page, idx: int) -> int:
    """Run a cell; return the kernel's count of it."""
    return page.evaluate(
        """async idx => {
            const {shell, commands} = window.jupyterapp;
            shell.currentWidget.content.activeCellIndex = idx;
            await commands.execute("notebook:run-cell");
            return shell.currentWidget.content.widgets[idx].model.executionCount;
        }""",
        idx,
    )


def test_nothing_is_run_in_the_kernel(open_notebook, use_provider, page):
    """A12: showing, cycling and accepting leave the kernel's count where it was."""
    use_provider("fake:text=a+%3D+1&text=b+%3D+2&text=c+%3D+3")
    notebook = open_notebook(
        [cell("markdown", "Set it.", "m"), cell("code", "", "c"), cell("code", "print(1)", "d")]
    )
    assert run_cell(page, 2) == 1
    notebook.click(1)
    notebook.press("Alt+j")
    notebook.wait_for_candidates()
    notebook.press("Alt+]")
    notebook.press("Alt+j")
    notebook.expect_source(1, "b = 2")
    assert run_cell(page, 2) == 2
