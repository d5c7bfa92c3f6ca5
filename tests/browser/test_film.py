"""The film in the README: a cell filled by the bundled model, from the first key to the undo.

``JUPYT5_FILM=docs/img/fill.gif pytest -m browser tests/browser/test_film.py`` writes it; without
the variable the test only makes sure that it can be taken.
"""

import io
import os
import shutil
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect

from jupyt5.providers import list_providers

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DEMO = Path(__file__).parents[2] / "notebooks" / "demo.ipynb"
NANO = "jupyt5:nano"
CELL = 2
BADGE = ".jp-jupyt5-panel-badge"
NUM_COLOURS = 64
MAX_BYTES = 1_500_000


class Film:
    """Pictures of a part of a page, each shown for a while."""

    def __init__(self, what) -> None:
        self._what = what
        self._frames: list[tuple[Image.Image, int]] = []

    def take(self, for_ms: int) -> None:
        """Add a picture of what is to be seen now."""
        picture = Image.open(io.BytesIO(self._what.screenshot())).convert("RGB")
        self._frames.append((picture.quantize(NUM_COLOURS), for_ms))

    def write(self, path: Path) -> None:
        """Write the pictures as a GIF that repeats."""
        (first, _), *others = self._frames
        first.save(
            path,
            save_all=True,
            append_images=[picture for picture, _ in others],
            duration=[for_ms for _, for_ms in self._frames],
            loop=0,
            optimize=True,
        )


@pytest.fixture
def small_page(page):
    """JupyterLab in the size of the film."""
    page.set_viewport_size({"width": 1060, "height": 760})
    yield page
    page.set_viewport_size({"width": 1280, "height": 900})


def try_candidates(lab, notebook, film) -> None:
    """Have them run against the next cell, where the machine can wall them in."""
    if lab.call(f"jupyt5/api/consent?notebook_path={notebook.path.name}")["available"]:
        notebook.press("Alt+t")
        notebook.page.wait_for_timeout(200)
        film.take(900)
        expect(notebook.panel.locator(BADGE)).not_to_be_empty(timeout=90_000)
        notebook.wait_for_candidates()
        film.take(3000)


def test_film_of_a_fill(lab, make_page, use_provider, small_page, tmp_path):
    if not any(info.uri == NANO and info.available for info in list_providers()):
        pytest.fail("The bundled model is missing from this checkout.")
    use_provider(NANO)
    shutil.copy(DEMO, lab.root / DEMO.name)
    page = small_page
    notebook = make_page(page, DEMO.name).open()
    film = Film(page.locator(".jp-NotebookPanel"))
    notebook.cell(CELL + 8).scroll_into_view_if_needed()
    notebook.cell(CELL - 1).evaluate("cell => cell.scrollIntoView()")
    film.take(1500)
    notebook.click(CELL)
    film.take(1200)
    notebook.press("Alt+j")
    for _ in range(6):
        page.wait_for_timeout(120)
        film.take(300)
    notebook.wait_for_candidates()
    film.take(2500)
    try_candidates(lab, notebook, film)
    for key in ("Alt+]", "Alt+]", "Alt+]"):
        notebook.press(key)
        page.wait_for_timeout(150)
        film.take(1300)
    notebook.press("Alt+j")
    page.wait_for_timeout(300)
    assert notebook.source(CELL).strip()
    film.take(2500)
    notebook.press("Control+z")
    notebook.expect_source(CELL, "")
    page.wait_for_timeout(200)
    film.take(2000)
    path = Path(os.environ.get("JUPYT5_FILM") or tmp_path / "fill.gif")
    film.write(path)
    assert 20_000 < path.stat().st_size < MAX_BYTES
    with Image.open(path) as written:
        assert getattr(written, "n_frames", 1) >= 10
