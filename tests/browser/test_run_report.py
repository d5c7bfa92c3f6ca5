"""The report of a training run in a real Chromium: offline, readable, usable by keyboard.

``JUPYT5_RUN=runs/nano JUPYT5_SCREENSHOT=docs/img/run-report.png`` makes it write the picture of
the documentation from a real run.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from jupyt5_training.metrics import METRICS_NAME
from jupyt5_training.run_report import write_report

pytestmark = pytest.mark.browser

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
)


@pytest.fixture(scope="module")
def report_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("run")
    recipe = {"name": HOSTILE, "steps": 500, "seed": 0}
    (run / "recipe.json").write_text(json.dumps({"recipe": recipe, "data_sha256": "0"}))
    records: list[dict[str, object]] = [
        {
            "step": step,
            "loss": 2 + 600 / (100 + step),
            "lr": 1e-3,
            "tokens_per_s": 4000.0 + step,
            "step_s": 2.0,
            "data_wait_s": 0.1,
            "rank_step_s": [1.8, 2.0],
        }
        for step in range(1, 501)
    ]
    records += [
        {"step": step, "validation_loss": 3.5 - step / 500, "tokens_seen": step * 8000}
        for step in (0, 250, 500)
    ]
    records.append({"step": 250, "event": "rollback", "detail": HOSTILE})
    (run / METRICS_NAME).write_text("".join(json.dumps(record) + "\n" for record in records))
    return write_report(run)


@pytest.fixture
def tab(browser: Browser, report_path: Path) -> Iterator[Page]:
    """The report, opened from a file without a network; what it complains of fails the test."""
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1360, "height": 900}, offline=True)
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    open_report(page, report_path)
    yield page
    context.close()
    assert complaints == []
    assert requests == [report_path.as_uri()]


def open_report(page: Page, path: Path) -> None:
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=60_000)


def test_all_charts_tell_their_values_at_the_pointer(tab: Page) -> None:
    charts = tab.locator("figure")
    outputs = tab.locator("figure output")
    expect(charts).to_have_count(5)
    expect(outputs.first).to_be_empty()
    box = tab.locator("figure svg").first.bounding_box()
    assert box
    # The plot begins at 58 and ends at 606 of 620: half-way is step 250.
    tab.mouse.move(box["x"] + box["width"] * 332 / 620, box["y"] + box["height"] / 2)
    expect(outputs.first).to_have_text("step 250 · training 3.717 · held out 3")
    expect(outputs.nth(2)).to_have_text("step 250 · speed 4,250 tokens/s")
    expect(outputs.nth(3)).to_contain_text("slowest rank 2 s · fastest rank 1.8 s")
    tab.mouse.move(2, 2)
    expect(outputs.first).to_be_empty()


def test_the_keyboard_does_it_too(tab: Page) -> None:
    tab.locator("figure svg").nth(1).focus()
    tab.keyboard.press("ArrowLeft")
    expect(tab.locator("figure output").first).to_contain_text("step 500 ·")
    tab.keyboard.press("Shift+ArrowLeft")
    expect(tab.locator("figure output").first).to_contain_text("step 450 ·")
    tab.keyboard.press("Escape")
    expect(tab.locator("figure output").first).to_be_empty()


def test_hostile_texts_are_texts(tab: Page) -> None:
    assert tab.locator("h1").inner_text() == HOSTILE
    expect(tab.locator("section[aria-labelledby=h-events]")).to_contain_text(HOSTILE)
    assert tab.locator("img").count() == 0
    assert tab.locator("script").count() == 2
    assert tab.title() == f"{HOSTILE}: training run"


def test_small_and_dark(tab: Page) -> None:
    tab.set_viewport_size({"width": 400, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    light = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.emulate_media(color_scheme="dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != light


@pytest.mark.skipif("JUPYT5_RUN" not in os.environ, reason="only on request: JUPYT5_RUN=runs/nano")
def test_the_picture_of_the_documentation(browser: Browser) -> None:
    path = write_report(Path(os.environ["JUPYT5_RUN"])).resolve()
    context = browser.new_context(viewport={"width": 1360, "height": 1180}, offline=True)
    page = context.new_page()
    open_report(page, path)
    picture_path = Path(os.environ["JUPYT5_SCREENSHOT"])
    page.screenshot(path=picture_path)
    context.close()
    # As a palette it has half the bytes.
    Image.open(picture_path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(
        picture_path, optimize=True
    )
    assert 20_000 < picture_path.stat().st_size < 400_000
