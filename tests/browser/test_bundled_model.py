"""The bundled model, behind the same command: whatever it writes, the joints hold."""

from pathlib import Path

import pytest

from jupyt5.providers import list_providers

pytestmark = pytest.mark.browser

DEMO = Path(__file__).parents[2] / "notebooks" / "demo.ipynb"
NANO = "jupyt5:nano"


def test_fills_and_undoes(open_notebook, use_provider):
    if not any(info.uri == NANO and info.available for info in list_providers()):
        pytest.fail("The bundled model is missing from this checkout.")
    use_provider(NANO)
    notebook = open_notebook(DEMO)
    notebook.click(2)
    notebook.fill()
    filled = notebook.source(2)
    assert filled.strip()
    assert "```" not in filled
    notebook.press("Control+z")
    notebook.expect_source(2, "")
