"""The picture in the README: the panel at a cell of the demo notebook, by the bundled model.

``JUPYT5_SCREENSHOT=docs/img/filled-cell.png pytest -m browser tests/browser/test_screenshot.py``
writes it; without the variable the test only makes sure that it can be taken.
"""

import os
import shutil
from pathlib import Path

import pytest

from jupyt5.providers import list_providers

pytestmark = pytest.mark.browser

DEMO = Path(__file__).parents[2] / "notebooks" / "demo.ipynb"
NANO = "jupyt5:nano"
CELL = int(os.environ.get("JUPYT5_SCREENSHOT_CELL", "5"))


def test_filled_cell(lab, make_page, use_provider, page, tmp_path):
    if not any(info.uri == NANO and info.available for info in list_providers()):
        pytest.fail("The bundled model is missing from this checkout.")
    use_provider(NANO)
    shutil.copy(DEMO, lab.root / DEMO.name)
    notebook = make_page(page, DEMO.name).open()
    notebook.click(CELL)
    notebook.press("Alt+j")
    notebook.wait_for_candidates()
    page.wait_for_timeout(1000)
    path = Path(os.environ.get("JUPYT5_SCREENSHOT") or tmp_path / "filled-cell.png")
    page.locator("#main").screenshot(path=path)
    assert path.stat().st_size > 20_000  # an empty page is smaller
    notebook.press("Alt+j")
    page.wait_for_timeout(500)
    assert notebook.source(CELL).strip()
