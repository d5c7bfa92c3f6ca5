"""The demo notebooks, filled from the first empty cell to the last by the bundled model.

Whatever the model writes, right or wrong: every empty cell gets text through the interface, where
candidates are tried a verdict is shown, and the saved file is valid and has nothing else changed.
"""

import json
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from jupyt5.providers import list_providers

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
NANO = "jupyt5:nano"
OPEN_CELLS = {
    name: list(solutions)
    for name, solutions in json.loads((ROOT / "tests/demos/solutions.json").read_text()).items()
}
BADGE = ".jp-jupyt5-panel-badge"
TOAST = ".Toastify__toast"


@pytest.fixture
def open_demo(open_notebook, use_provider):
    """Open a demo, and let the bundled model answer."""
    if not any(info.uri == NANO and info.available for info in list_providers()):
        pytest.fail("The bundled model is missing from this checkout.")
    use_provider(NANO)

    def open_it(name: str):
        notebook = open_notebook(ROOT / "notebooks" / name)
        raw = json.loads((ROOT / "notebooks" / name).read_text())
        places = [cell["id"] for cell in raw["cells"]]
        return notebook, {cell_id: places.index(cell_id) for cell_id in OPEN_CELLS[name]}

    return open_it


def expect_whole(notebook, name: str) -> None:
    """The file is valid, every open cell has text of its own, and all others are as they were."""
    after = notebook.save()
    nbformat.validate(nbformat.from_dict(after))
    before = json.loads((ROOT / "notebooks" / name).read_text())
    assert len(after["cells"]) == len(before["cells"])
    for was, now in zip(before["cells"], after["cells"], strict=True):
        old, new = "".join(was["source"]), "".join(now["source"])
        is_open = was["id"] in OPEN_CELLS[name]
        assert (new != old) is is_open, was["id"]
        assert new.strip()
        assert "NotImplementedError" not in new
        assert {**was, "source": ""} == {**now, "source": ""}, was["id"]


def test_demo_cell_by_cell(open_demo, lab, page):
    """Fill each cell; where a cell below can judge, try the candidates before one is taken."""
    notebook, places = open_demo("demo.ipynb")
    can_try = lab.call(f"jupyt5/api/consent?notebook_path={notebook.path.name}")["available"]
    for cell_id, idx in places.items():
        notebook.click(idx)
        notebook.press("Control+End")
        notebook.press("Alt+j")
        notebook.wait_for_candidates()
        box = notebook.panel.get_by_role("checkbox", name="Try against the next cell")
        if can_try and box.count():
            if not box.is_checked():
                notebook.press("Alt+t")
            expect(notebook.panel.locator(BADGE)).not_to_be_empty(timeout=90_000)
            notebook.wait_for_candidates()
        notebook.accept()
        expect(notebook.panel).to_have_count(0)
        assert notebook.source(idx).strip(), cell_id
    expect_whole(notebook, "demo.ipynb")


def test_homework_all_at_once(open_demo, page):
    notebook, places = open_demo("homework.ipynb")
    notebook.click(0)
    page.evaluate("void window.jupyterapp.commands.execute('jupyt5:fill-all')")
    words = f"Filled {len(places)} of {len(places)} solution cells"
    expect(page.locator(TOAST, has_text=words).first).to_be_visible(timeout=90_000)
    expect_whole(notebook, "homework.ipynb")


@pytest.fixture
def own_page(browser, lab):
    """A page that has the reader's settings: the bundled model is told of the variables."""
    lab.set_settings(provider=NANO, kernelFacts=True)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(120_000)
    yield page
    context.close()
    lab.set_settings()


def run_first_cells(notebook, num_runs: int) -> None:
    """Run the code cells at the top, then take counts and outputs away again."""
    notebook.page.evaluate(
        """async numRuns => {
            const {shell, commands} = window.jupyterapp;
            const {content} = shell.currentWidget;
            const cells = content.widgets.filter(cell => cell.model.type === "code");
            for (const cell of cells.slice(0, numRuns)) {
                content.activeCellIndex = content.widgets.indexOf(cell);
                await commands.execute("notebook:run-cell");
                cell.model.clearExecution();
                cell.model.deleteMetadata("execution");
            }
        }""",
        num_runs,
    )


def test_analysis_with_the_kernels_variables(lab, own_page):
    """The model is told of the data frame's columns; the Markdown cell describes the code below."""
    name = lab.add_notebook(ROOT / "notebooks" / "data-analysis.ipynb")
    kinds: list[str] = []

    def note(request) -> None:
        if request.method == "POST" and "jupyt5/api/fill" in request.url:
            sent = request.post_data_json
            if sent["n"] > 1:  # not for ghost text
                kinds.append(sent["cells"][sent["target_idx"]]["kind"])

    own_page.on("request", note)
    own_page.goto(lab.page_url(f"lab/tree/{name}"))
    notebook = lab.handle(own_page, name).wait()
    cells = json.loads(notebook.path.read_text())["cells"]
    run_first_cells(notebook, 2)
    first, *others = [
        idx for idx, cell in enumerate(cells) if cell["id"] in OPEN_CELLS["data-analysis.ipynb"]
    ]
    notebook.click(first)
    notebook.press("Alt+j")
    notebook.wait_for_candidates()
    notebook.panel.get_by_role("button", name="What is sent?").click()
    sent = notebook.panel.locator(".jp-jupyt5-panel-sent")
    expect(sent).to_contain_text("# trips: DataFrame, 8 rows, columns line", timeout=30_000)
    notebook.accept()
    for idx in others:
        notebook.click(idx)
        notebook.fill()
        expect(notebook.panel).to_have_count(0)
    assert kinds == ["code"] * 5 + ["markdown"]
    expect_whole(notebook, "data-analysis.ipynb")
