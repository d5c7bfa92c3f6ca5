"""What the extension costs the page: requests, start-up, size, and how fast it cancels.

A real Chromium on a real server. Start-ups with and without the extension take turns, each with
an empty cache. A request's time is what the page's main thread spends from the command to the
end of the call that sends it, in a notebook of 400 cells of 40 lines. Prints JSON.

    python -m tests.benchmarks.bench_front_end --starts 10
"""

import argparse
import gzip
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

from tests.browser.conftest import FILL_URL, Lab, start_lab

CHROMIUM = "/usr/bin/chromium"
TIMEOUT_MS = 120_000
VIEW = {"width": 1280, "height": 900}
# When the application was restored, and how long each call that sent a fill request took.
PROBE = """
Object.defineProperty(window, "jupyterapp", {
    get: () => window.benchApp,
    set: app => {
        window.benchApp = app;
        app.restored.then(() => { window.benchRestored = performance.now(); });
    },
});
window.benchSent = [];
const send = window.fetch;
window.fetch = (...args) => {
    const reply = send.apply(window, args);
    if (/jupyt5.api.fill(\\?|$)/.test(args[0]?.url ?? args[0])) {
        window.benchSent.push(performance.now());
    }
    return reply;
};
"""
SEND = """async command => {
    const before = window.benchSent.length;
    const start = performance.now();
    void window.jupyterapp.commands.execute(command);
    while (window.benchSent.length === before) {
        await new Promise(resolve => setTimeout(resolve, 1));
    }
    return window.benchSent.at(-1) - start;
}"""
STARTED = """() => ({
    restored_ms: window.benchRestored,
    activate_ms: performance.getEntriesByName("jupyt5:activate")[0]?.duration ?? null,
    files: performance.getEntriesByType("resource")
        .filter(each => each.name.includes("jupyt5-labextension/static")).length,
})"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--starts", type=int, default=10, help="page loads of each kind")
    parser.add_argument("--requests", type=int, default=60, help="requests of each kind")
    parser.add_argument("--cancels", type=int, default=20, help="cancelled fills of each kind")
    parser.add_argument("--chromium", default=CHROMIUM, help="the executable")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        labs = start_lab(Path(folder), "fake:text=answer+%3D+42")
        lab = next(labs)
        browser = playwright.chromium.launch(
            executable_path=args.chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        report = {
            "load_average": os.getloadavg()[0],
            "size_bytes": _measure_size(),
            "start": _measure_starts(lab, browser, args.starts),
            **_measure_requests(lab, browser, args.requests, args.cancels),
        }
        browser.close()
        labs.close()  # type: ignore[attr-defined]
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


def _measure_size() -> dict[str, int]:
    """What a page loads of the extension, as it is and compressed."""
    folder = Path(__file__).parents[2] / "jupyt5" / "labextension" / "static"
    scripts = [path.read_bytes() for path in sorted(folder.glob("*.js"))]
    return {
        "files": len(scripts),
        "raw": sum(map(len, scripts)),
        "gzip": sum(len(gzip.compress(script)) for script in scripts),
    }


def _measure_starts(lab: Lab, browser: Browser, count: int) -> dict[str, Any]:
    rows: dict[str, list[dict[str, Any]]] = {"with": [], "without": []}
    _start(lab, browser, "with")  # the first load of a server is slower than all others
    for idx in range(2 * count):
        kind = ("with", "without")[(idx + idx // 2) % 2]  # ABBA: drift falls on both alike
        rows[kind].append(_start(lab, browser, kind))
    report: dict[str, Any] = {}
    for name in ("restored_ms", "main_thread_cpu_ms"):
        times = {kind: [row[name] for row in each] for kind, each in rows.items()}
        medians = {kind: statistics.median(each) for kind, each in times.items()}
        report |= {f"{name}_{kind}": _spread(each) for kind, each in times.items()}
        report[f"{name}_added_median"] = round(medians["with"] - medians["without"], 1)
    return report | {
        "activate_ms": _spread([row["activate_ms"] for row in rows["with"]]),
    }


def _start(lab: Lab, browser: Browser, kind: str) -> dict[str, Any]:
    """Load the page once; without the extension, its page does not name it."""
    context, page = _open(browser)

    def answer(route: Route) -> None:
        reply = route.fetch()
        html = reply.text()
        start, end, config = _find_config(html)
        if kind == "without":
            config["federated_extensions"] = [
                each for each in config["federated_extensions"] if "jupyt5" not in each["name"]
            ]
        route.fulfill(response=reply, body=html[:start] + json.dumps(config) + html[end:])

    page.route(re.compile(r"/lab\?"), answer)
    # Processor time: on a busy machine the clock says little.
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(lab.page_url("lab"))
    page.wait_for_function("window.benchRestored")
    row: dict[str, Any] = page.evaluate(STARTED)
    assert bool(row["files"]) == (kind == "with"), row
    metrics = session.send("Performance.getMetrics")["metrics"]
    row["main_thread_cpu_ms"] = next(
        1000 * each["value"] for each in metrics if each["name"] == "TaskDuration"
    )
    context.close()
    return row


def _find_config(html: str) -> tuple[int, int, dict[str, Any]]:
    """What JupyterLab's page tells its scripts, and where it stands."""
    found = re.search(r'<script id="jupyter-config-data"[^>]*>(.*?)</script>', html, re.DOTALL)
    assert found, "JupyterLab's page has no settings for its scripts."
    return *found.span(1), json.loads(found[1])


def _open(browser: Browser) -> tuple[BrowserContext, Page]:
    context = browser.new_context(viewport=VIEW)  # type: ignore[arg-type]
    context.set_default_timeout(TIMEOUT_MS)
    context.add_init_script(PROBE)
    return context, context.new_page()


def _measure_requests(
    lab: Lab, browser: Browser, num_requests: int, num_cancels: int
) -> dict[str, Any]:
    name = lab.add_notebook(_make_cells())
    context, page = _open(browser)
    page.goto(lab.page_url(f"lab/tree/{name}"))
    page.wait_for_function(
        "window.benchRestored && jupyterapp.shell.currentWidget?.content?.widgets?.length === 400"
        " && jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
    )
    page.evaluate(
        """async () => {
            const notebook = jupyterapp.shell.currentWidget.content;
            notebook.activeCellIndex = 201;
            await notebook.scrollToItem(201, "center");
        }"""
    )
    page.locator('[data-windowed-list-index="201"] .cm-content').click()
    report = {
        "panel_request_ms": _measure_sending(page, "jupyt5:fill-cell", num_requests),
        "ghost_request_ms": _measure_sending(page, "inline-completer:invoke", num_requests),
    }
    for label, uri in (
        ("fake_100_ms_a_step", "fake:slow=100&text=" + "+".join(["word"] * 100)),
        ("bundled_model", "jupyt5:nano"),
    ):
        report[f"cancel_to_idle_{label}_ms"] = _measure_cancels(lab, page, uri, num_cancels)
    context.close()
    return report


def _make_cells() -> list[dict[str, Any]]:
    """400 cells of 40 lines, one in five Markdown; the one that is filled is empty."""
    cells: list[dict[str, Any]] = []
    for idx in range(400):
        is_code = idx % 5 != 0
        line = (
            "value_{0} = compute(value_{0}, {1})" if is_code else "Words about step {0}, part {1}."
        )
        source = "\n".join(line.format(idx, number) for number in range(40))
        cell: dict[str, Any] = {
            "cell_type": "code" if is_code else "markdown",
            "id": f"cell-{idx}",
            "metadata": {},
            "source": "" if idx == 201 else source,
        }
        cells.append(cell | ({"execution_count": None, "outputs": []} if is_code else {}))
    return cells


def _measure_sending(page: Page, command: str, count: int) -> dict[str, float]:
    times: list[float] = []
    for idx in range(count + 1):
        took = page.evaluate(SEND, command)
        if idx:  # the first asks the server whether candidates may be tried
            times.append(took)
        page.wait_for_timeout(100)
        page.keyboard.press("Escape")
        page.keyboard.press("Enter")
    return _spread(times)


def _measure_cancels(lab: Lab, page: Page, uri: str, count: int) -> dict[str, float]:
    def rewrite(route: Route) -> None:
        body = json.loads(route.request.post_data or "{}")
        route.continue_(post_data=json.dumps(body | {"provider": uri, "n": 10}))

    page.route(FILL_URL, rewrite)
    times: list[float] = []
    for _ in range(count):
        page.evaluate("void jupyterapp.commands.execute('jupyt5:fill-cell')")
        page.wait_for_function(
            "document.querySelector('.jp-jupyt5-panel-code')?.textContent.trim()"
        )
        start_s = time.perf_counter()
        page.evaluate("jupyterapp.commands.execute('jupyt5:cancel')")
        _wait_until(lambda: lab.call("jupyt5/api/status")["num_running"] == 0)
        times.append(1000 * (time.perf_counter() - start_s))
    page.unroute(FILL_URL)
    return _spread(times)


def _wait_until(is_so: Callable[[], bool]) -> None:
    end_s = time.perf_counter() + 30
    while not is_so():
        if time.perf_counter() > end_s:
            message = "The server still ran a cancelled request after 30 s."
            raise TimeoutError(message)
        time.sleep(0.002)


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "n": len(ordered),
        "min": round(ordered[0], 2),
        "median": round(statistics.median(ordered), 2),
        "p95": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 2),
        "max": round(ordered[-1], 2),
    }


if __name__ == "__main__":
    raise SystemExit(main())
