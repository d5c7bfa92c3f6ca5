"""The page on several runs in a real Chromium: nothing is cut off, on screen or on paper."""

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from jupyt5_dsp.overview import write_overview
from tests.dsp.overview_runs import write_run

pytestmark = pytest.mark.browser

# Elements that stick out of the page's content, or hide some of their own.
FIND_CLIPPED = """() => {
  const edge = document.documentElement.clientWidth;
  return [...document.querySelectorAll("body *")]
    .filter((one) => {
      const place = one.getBoundingClientRect();
      return place.right > edge + 0.5 || place.left < -0.5;
    })
    .map((one) => `${one.tagName} ${one.className.baseVal ?? one.className}`);
}"""
# Words of tables' headings that stand on more than one line; a hyphen may end a line.
FIND_BROKEN = """() => [...document.querySelectorAll("thead th")].flatMap((one) =>
  [...one.textContent.matchAll(/[^\\s-]+/g)].filter((word) => {
    const range = document.createRange();
    range.setStart(one.firstChild, word.index);
    range.setEnd(one.firstChild, word.index + word[0].length);
    return new Set([...range.getClientRects()].map((place) => place.top)).size > 1;
  }).map((word) => word[0]))"""
# Width of an A4 page between this page's margins, at 96 pixels an inch.
A4_WIDTH = 703


@pytest.mark.parametrize(("num_ks", "num_suites"), [(3, 4), (4, 6), (6, 8)])
def test_nothing_is_clipped(browser: Browser, tmp_path: Path, num_ks: int, num_suites: int) -> None:
    ks = ("1", "2", "5", "10", "100", "200")[:num_ks]
    rates = dict.fromkeys(("valid", "all", "attempted"), dict.fromkeys(ks, 0.999))
    scope = {k: [0.123, 1.0] for k in ks}
    ends = dict.fromkeys(("valid", "all", "attempted"), scope)
    runs = [
        write_run(
            tmp_path / f"run-{idx}-with-a-name-of-some-length",
            suite=f"suite{idx % num_suites}",
            suite_version=f"suite{idx % num_suites}-v1",
            provider=f"openai:https://models.example.org/v1/{'x' * 60}{idx % 12}",
            pass_at_k=rates,
            ci95=ends,
            num_valid=164,
        )
        for idx in range(24)
    ]
    page_path = write_overview(runs, tmp_path / "out")
    sizes: list[tuple[int, Literal["screen", "print"]]] = [
        (1300, "screen"),
        (800, "screen"),
        (A4_WIDTH, "print"),
    ]
    for width, media in sizes:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.emulate_media(media=media)
        page.goto(page_path.as_uri())
        assert page.evaluate(FIND_CLIPPED) == [], (width, media)
        assert page.evaluate(FIND_BROKEN) == [], (width, media)
        page.close()
