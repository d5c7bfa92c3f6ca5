"""The map of a corpus in a real Chromium: offline, quick with 15,000 points, usable, and safe.

``JUPYT5_MAP=map.html JUPYT5_SCREENSHOT=docs/img/corpus-map.png`` makes it write the picture of the
documentation from a real map; ``--log-cli-level=INFO`` shows the times.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from jupyt5_corpus.map.chart import Chart, name_cluster
from jupyt5_corpus.map.page import render_page
from jupyt5_corpus.map.places import Cluster
from jupyt5_corpus.map.sample import SampledNotebook
from jupyt5_corpus.map.settings import MapSettings

pytestmark = [pytest.mark.browser]

logger = logging.getLogger(__name__)

NUM_NOTEBOOKS = 15_000
NUM_CLUSTERS = 24
MAX_DRAW_MS = 100.0
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
)


def make_chart(num_notebooks: int, num_clusters: int) -> Chart:
    """Make up a map: clusters of points in a ring; the first notebook is hostile."""
    draw = np.random.default_rng(0)
    labels_N = np.arange(num_notebooks) % num_clusters
    angles_N = 2 * np.pi * labels_N / num_clusters
    centres_N2 = 50 * np.stack([np.cos(angles_N), np.sin(angles_N)], axis=1)
    places_N2 = centres_N2 + draw.normal(scale=4, size=(num_notebooks, 2))
    notebooks = [
        SampledNotebook(
            repo=f"owner{idx % 50}/repo",
            path=HOSTILE if idx == 0 else f"lesson {idx}.ipynb",
            title=HOSTILE if idx == 0 else f"Lesson {idx}",
            markdown_fraction=(idx % 101) / 100,
        )
        for idx in range(num_notebooks)
    ]
    clusters = [
        Cluster(
            members=tuple(np.flatnonzero(labels_N == idx).tolist()),
            terms=(f"term{idx}", HOSTILE, "third", "fourth"),
        )
        for idx in range(num_clusters)
    ]
    return Chart(
        notebooks=notebooks,
        places_N2=places_N2,
        clusters=[name_cluster(cluster, notebooks) for cluster in clusters],
        num_without_words=7,
        settings=MapSettings(),
    )


@pytest.fixture(scope="module")
def map_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("map") / "map.html"
    path.write_bytes(render_page(make_chart(NUM_NOTEBOOKS, NUM_CLUSTERS)))
    return path


@pytest.fixture
def requests() -> list[str]:
    return []


@pytest.fixture
def tab(browser: Browser, map_path: Path, requests: list[str]) -> Iterator[Page]:
    """The map, opened from a file without a network; what it complains of fails the test."""
    complaints: list[str] = []
    viewport = {"width": 1360, "height": 940}
    context = browser.new_context(viewport=viewport, offline=True)  # pyright: ignore[reportArgumentType]
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    open_map(page, map_path)
    yield page
    context.close()
    assert complaints == []


def open_map(page: Page, path: Path) -> None:
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=60_000)


def settle(page: Page) -> None:
    """Wait for two frames: what was asked to be drawn is drawn."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def colours_near(page: Page, x: float, y: float, reach: int = 12) -> int:
    """Count colours around a place of the canvas, which has one if no point is there."""
    return page.evaluate(
        """([x, y, reach]) => {
            const canvas = document.getElementById("map");
            const [left, top] = [Math.round(x) - reach, Math.round(y) - reach];
            const image = canvas.getContext("2d").getImageData(left, top, 2 * reach, 2 * reach);
            return new Set(new Uint32Array(image.data.buffer)).size;
        }""",
        [x, y, reach],
    )


def middle(page: Page) -> tuple[float, float, float, float]:
    """Return the canvas's corner and its middle, in pixels of the page and the canvas."""
    box = page.locator("#map").bounding_box()
    assert box
    return box["x"], box["y"], box["width"] / 2, box["height"] / 2


def test_it_draws_quickly_and_asks_for_nothing(
    tab: Page, map_path: Path, requests: list[str]
) -> None:
    assert requests == [map_path.as_uri()]
    times_ms: list[float] = []
    for _ in range(8):
        tab.locator("#names").click()
        settle(tab)
        times_ms.append(float(tab.locator("#map").get_attribute("data-draw-ms") or "inf"))
    logger.info("%d bytes; all drawn in %s ms", map_path.stat().st_size, times_ms)
    # The best: the others may have waited for a busy machine.
    assert min(times_ms) < MAX_DRAW_MS
    assert colours_near(tab, 10, 10, 5) == 1
    expect(tab.locator("#count")).to_have_text("15,000 notebooks")


def test_hovering_and_clicking_a_point(tab: Page) -> None:
    """The ring's rightmost cluster is the first."""
    left, top, width, height = middle(tab)
    expect(tab.locator("#tip")).to_be_hidden()
    ring = height - 60
    for step in range(40):
        x, y = width + ring - 2 * step, height
        tab.mouse.move(left + x, top + y)
        if tab.locator("#tip").is_visible():
            break
    expect(tab.locator("#tip")).to_contain_text("cluster: term0")
    expect(tab.locator("#tip")).to_contain_text("% Markdown")
    told = tab.locator("#tip").text_content()
    tab.mouse.down()
    tab.mouse.up()
    expect(tab.locator("#picked")).to_have_text(str(told))
    tab.mouse.move(left + 5, top + 5)
    expect(tab.locator("#tip")).to_be_hidden()


def test_wheel_and_drag_move_the_map(tab: Page) -> None:
    left, top, width, height = middle(tab)
    tab.locator("#names").uncheck()
    settle(tab)
    assert colours_near(tab, width, height) == 1  # the ring's hole
    tab.mouse.move(left + width, top + height)
    tab.mouse.down()
    tab.mouse.move(left + width - (height - 60), top + height, steps=5)
    tab.mouse.up()
    settle(tab)
    assert colours_near(tab, width, height) > 1
    tab.locator("#fit").click()
    settle(tab)
    assert colours_near(tab, width, height) == 1
    tab.mouse.move(left + width, top + height)
    for _ in range(4):
        tab.mouse.wheel(0, -300)
    settle(tab)
    assert colours_near(tab, 20, 20) == 1


def test_the_keyboard_does_it_all(tab: Page) -> None:
    tab.locator("#map").focus()
    picked = tab.locator("#picked")
    tab.keyboard.press("ArrowRight")
    expect(picked).to_contain_text("Lesson")
    first = picked.inner_text()
    tab.keyboard.press("ArrowLeft")
    expect(picked).not_to_have_text(first)
    for key in ("+", "+", "Shift+ArrowDown", "-", "0"):
        tab.keyboard.press(key)
    tab.keyboard.press("Escape")
    expect(picked).to_be_empty()
    cluster = tab.locator("#clusters > li > button").nth(3)
    cluster.focus()
    tab.keyboard.press("Enter")
    expect(cluster).to_have_attribute("aria-expanded", "true")
    expect(tab.locator("#count")).to_have_text("625 of 15,000 notebooks")
    example = tab.locator("#clusters > li").nth(3).locator(".more button").first
    example.focus()
    tab.keyboard.press("Enter")
    expect(picked).to_contain_text(example.inner_text())
    cluster.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("#count")).to_have_text("15,000 notebooks")


def test_finding(tab: Page) -> None:
    tab.locator("#find").fill("OWNER7/repo")
    expect(tab.locator("#count")).to_have_text("300 of 15,000 notebooks")
    expect(tab.locator("#found-list li")).to_have_count(41)
    expect(tab.locator("#found-list li").last).to_have_text("and 260 more")
    tab.locator("#find").fill("lesson 14999")
    tab.locator("#found-list button").click()
    expect(tab.locator("#picked")).to_contain_text("owner49/repo/lesson 14999.ipynb")
    tab.locator("#find").fill("no such notebook")
    expect(tab.locator("#count")).to_have_text("0 of 15,000 notebooks")
    expect(tab.locator("#picked")).to_be_empty()


def test_hostile_texts_are_texts(tab: Page) -> None:
    tab.locator("#find").fill("onerror")
    tab.locator("#found-list button").click()
    expect(tab.locator("#picked")).to_contain_text(HOSTILE)
    expect(tab.locator("#clusters")).to_contain_text(HOSTILE)
    assert tab.title() == "Map of 15,000 notebooks"
    assert tab.locator("img").count() == 0
    assert tab.locator("script").count() == 2


def test_dark_and_small(tab: Page) -> None:
    ground = (
        "() => [...document.getElementById('map').getContext('2d').getImageData(3, 3, 1, 1).data]"
    )
    assert tab.evaluate(ground) == [0xF6, 0xF8, 0xFA, 255]
    tab.emulate_media(color_scheme="dark")
    settle(tab)
    assert tab.evaluate(ground) == [0x16, 0x1B, 0x22, 255]
    tab.set_viewport_size({"width": 420, "height": 800})
    settle(tab)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.locator("#clusters button").first.click()
    expect(tab.locator("#count")).to_have_text("625 of 15,000 notebooks")


@pytest.mark.skipif("JUPYT5_MAP" not in os.environ, reason="only on request: JUPYT5_MAP=map.html")
def test_the_picture_of_the_documentation(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1360, "height": 900}, offline=True)
    page = context.new_page()
    open_map(page, Path(os.environ["JUPYT5_MAP"]).resolve())
    settle(page)
    picture_path = Path(os.environ["JUPYT5_SCREENSHOT"])
    page.screenshot(path=picture_path)
    context.close()
    # As a palette it has half the bytes.
    Image.open(picture_path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(
        picture_path, optimize=True
    )
    assert 20_000 < picture_path.stat().st_size < 300_000
