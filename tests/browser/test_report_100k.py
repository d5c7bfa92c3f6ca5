"""The report of 100,000 samples in a real Chromium: small, quick, usable, and safe.

``JUPYT5_SCREENSHOT=docs/img/dsp-report.png`` makes it write the picture of the README, and
``--log-cli-level=INFO`` show size and times.
"""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FloatRect, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
logger = logging.getLogger(__name__)

MAX_BYTES = 30_000_000
MAX_LOAD_S = 3.0
NUM_PROBLEMS, NUM_SAMPLES = 1000, 100
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
)


def make_report(path: Path, num_problems: int, num_samples: int, *, hostile: bool = False) -> Path:
    """Make a run up and its report in processes of their own.

    CodeBLEU is made up with it: ten thousand scores take a minute or two.
    """
    script = ROOT / "tests" / "benchmarks" / "make_run.py"
    options = ["--problems", str(num_problems), "--samples", str(num_samples)]
    options.append("--similarity")
    subprocess.run([sys.executable, script, path, *options], check=True)
    if hostile:
        poison(path / "samples.jsonl", "completion")
        for name in ("message", "output_head", "traceback"):
            poison(path / "verdicts.jsonl", name)
        results = json.loads((path / "results.json").read_text())
        results["provider"] = HOSTILE
        results["problems"][0]["notebook"] = HOSTILE
        (path / "results.json").write_text(json.dumps(results))
    command = [
        sys.executable,
        "-c",
        "import sys; from jupyt5_dsp.cli import main; main()",
        "report",
    ]
    subprocess.run([*command, path], check=True)
    return path / "report.html"


def poison(path: Path, field: str) -> None:
    records = [json.loads(line) | {field: HOSTILE} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture(scope="module")
def report_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_report(tmp_path_factory.mktemp("large") / "run", NUM_PROBLEMS, NUM_SAMPLES)


@pytest.fixture
def complaints() -> list[str]:
    """What pages wrote to the console or raised; anything left at the end fails the test."""
    return []


@pytest.fixture
def tab(browser: Browser, complaints: list[str]) -> Iterator[Page]:
    """A tab without network."""
    context = browser.new_context(viewport={"width": 1360, "height": 940}, offline=True)
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert complaints == []


def open_report(tab: Page, path: Path) -> float:
    """Return the seconds from navigation to a table that can be sorted."""
    start_s = time.monotonic()
    tab.goto(path.as_uri(), wait_until="commit")
    tab.wait_for_selector("html[data-ready=yes]", state="attached")
    assert tab.locator("#rows tr").count() > 0
    return time.monotonic() - start_s


def test_size(report_path: Path) -> None:
    size_bytes = report_path.stat().st_size
    logger.info("The report has %d bytes.", size_bytes)
    assert size_bytes <= MAX_BYTES
    results = json.loads((report_path.parent / "results.json").read_text())
    assert results["num_samples"] == NUM_PROBLEMS * NUM_SAMPLES


def test_opens_in_under_three_seconds(report_path: Path, tab: Page) -> None:
    # The best of five: the others may have waited for a busy machine.
    times_s = [open_report(tab, report_path) for _ in range(5)]
    logger.info("Seconds from navigation to a sortable table: %s", times_s)
    assert min(times_s) < MAX_LOAD_S
    picture_path = os.environ.get("JUPYT5_SCREENSHOT")
    top: FloatRect = {"x": 0, "y": 0, "width": 1360, "height": 1900}
    picture = tab.screenshot(path=picture_path, full_page=True, clip=top)
    assert len(picture) > 20_000  # An empty page is smaller.


def test_table_sorts_and_filters(report_path: Path, tab: Page) -> None:
    open_report(tab, report_path)
    expect(tab.locator("#count")).to_have_text("100 of 909 problems")
    head = tab.locator("#head th", has_text="pass rate")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    rates = tab.locator("#rows tr td:nth-child(4)").all_text_contents()
    values = [float(rate.rstrip(" %")) for rate in rates]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1]
    tab.locator("#more").click()
    expect(tab.locator("#count")).to_have_text("600 of 909 problems")
    tab.locator("#find").fill("week012")
    expect(tab.locator("#rows tr")).to_have_count(3)  # The fourth is not usable.
    tab.locator("#find").fill("")
    tab.locator("#show").select_option("unusable")
    expect(tab.locator("#count")).to_have_text("91 of 91 problems")


def test_every_sample_is_one_click_away(report_path: Path, tab: Page) -> None:
    open_report(tab, report_path)
    last = tab.locator("#rows tr").nth(99).get_by_role("button")
    last.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("#samples button")).to_have_count(NUM_SAMPLES)
    for name in ("Source", "Difference from the reference", "Grading cell"):
        expect(tab.locator("#sample h3", has_text=name)).to_be_visible()
    first = tab.locator("#samples button").first
    expect(first).to_have_attribute("aria-current", "true")
    first.focus()
    tab.keyboard.press("ArrowDown")
    expect(tab.locator("#sample h3").first).to_contain_text("Sample 1: ")
    tab.locator("#verdict").select_option("wrong")
    expect(tab.locator("#sample h3").first).to_contain_text("wrong")
    expect(tab.locator("#sample")).to_contain_text("AssertionError")
    expect(tab.locator("#sample del").first).to_be_visible()
    title = tab.locator("#viewer-title").text_content()
    tab.locator("#next").click()
    expect(tab.locator("#viewer-title")).not_to_have_text(str(title))
    tab.keyboard.press("Escape")
    expect(tab.locator("#viewer")).to_be_hidden()
    expect(last).to_be_focused()


def test_hostile_texts_are_texts(tmp_path: Path, tab: Page) -> None:
    path = make_report(tmp_path / "run", 4, 5, hostile=True)
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    open_report(tab, path)
    tab.locator("#rows button").first.click()
    expect(tab.locator("#viewer-note")).to_contain_text(HOSTILE)
    expect(tab.locator("#sample pre", has_text=HOSTILE).first).to_be_visible()
    assert tab.locator("#sample pre", has_text=HOSTILE).count() >= 4
    assert HOSTILE in tab.title()
    assert tab.locator("img").count() == 0
    assert requests == [path.as_uri()]


def test_markup_cannot_be_planted_by_the_page_itself(
    tmp_path: Path, tab: Page, complaints: list[str]
) -> None:
    path = make_report(tmp_path / "run", 1, 1)
    open_report(tab, path)
    refused = tab.evaluate(
        """() => {
            try {
                document.body.innerHTML = "<p>planted</p>";
            } catch (error) {
                return error.name;
            }
        }"""
    )
    assert refused == "TypeError"
    assert complaints
    assert all("TrustedHTML" in complaint for complaint in complaints)
    complaints.clear()
