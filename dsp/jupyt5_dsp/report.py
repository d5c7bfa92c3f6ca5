"""``report.html``: one self-contained page. Every text in it is escaped: samples are hostile."""

import html
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyt5.errors import ProblemSetError
from jupyt5.files import write_atomic
from jupyt5_dsp.curve import draw_curve
from jupyt5_dsp.jsonl import read_jsonl

__all__ = ["write_report"]

_EXAMPLE_CHARS = 700
_SCOPES = {
    "valid": "valid problems (headline)",
    "distinct": "distinct tests among them",
    "attempted": "valid problems with samples",
    "all": "all problems",
}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #1b1f24; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; color: #57606a; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #d0d7de;
  vertical-align: top; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
pre { margin: .3rem 0; padding: .5rem; background: #f6f8fa; overflow-x: auto; font-size: 12px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.muted { color: #57606a; } .big { font-size: 2rem; font-weight: 600; }
summary { cursor: pointer; } svg text { font: 12px system-ui, sans-serif; fill: #57606a; }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117; }
  pre { background: #161b22; } th, td { border-color: #30363d; }
  .muted, caption, svg text { color: #9198a1; fill: #9198a1; } }
"""


def write_report(run_path: Path) -> Path:
    """Write ``report.html`` from the files of a finished run.

    Raises:
        ProblemSetError: If the run is not finished or its files are damaged.
    """
    results_path = run_path / "results.json"
    if not results_path.is_file():
        message = (
            f"{run_path} has no results.json: no finished run is there. "
            "Repeat its dsp-eval run command to finish it."
        )
        raise ProblemSetError(message)
    try:
        results: dict[str, Any] = json.loads(results_path.read_text(encoding="utf-8"))
        page = render_report(results, list(read_jsonl(run_path / "verdicts.jsonl")))
    except (ValueError, KeyError, TypeError) as exc:
        message = f"{results_path} is damaged ({exc}). Repeat the dsp-eval run command."
        raise ProblemSetError(message) from exc
    report_path = run_path / "report.html"
    write_atomic(report_path, page)
    return report_path


def render_report(results: Mapping[str, Any], verdicts: Sequence[Mapping[str, object]]) -> str:
    """Return the page for one run's results and verdict lines."""
    title = f"{results['suite_version']} · {results['provider']}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        # Nothing is loaded and no script runs, whatever a sample printed.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_text(title)}</h1>",
        *_iter_headline(results),
        "<h2>pass@k</h2>",
        draw_curve(results["curve"]),
        *_iter_pass_table(results),
        *_iter_blocked(results),
        "<h2>Verdicts</h2>",
        *_iter_counts(results),
        "<h2>Problems</h2>",
        *_iter_problems(results, verdicts),
        *_iter_left_out(results),
        "<h2>Settings and environment</h2>",
        *_iter_settings(results),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _iter_headline(results: Mapping[str, Any]) -> Iterator[str]:
    valid = results["pass_at_k"].get("valid", {})
    first_k = next(iter(valid), None)
    shown = f"pass@{first_k} = {valid[first_k]:.1%}" if first_k else "no pass@k is defined"
    yield f'<p class="big">{shown}</p>'
    yield (
        f"<p>over {results['num_valid']} valid of {results['num_problems']} problems "
        f"({results['num_distinct']} distinct tests); {results['num_attempted']} problems have "
        f"samples, {results['num_left_out']} have none and count 0 in "
        f'"valid" and "all"; {results["num_samples"]:,} samples.</p>'
    )


def _iter_pass_table(results: Mapping[str, Any]) -> Iterator[str]:
    ks = sorted({int(k) for scope in results["pass_at_k"].values() for k in scope})
    yield "<table><caption>95 % intervals: bootstrap over clusters of problems that share a "
    yield "notebook or a test.</caption><tr><th>over</th>"
    yield "".join(f'<th class="n">pass@{k}</th>' for k in ks) + "</tr>"
    for name, label in _SCOPES.items():
        cells: list[str] = []
        for k in ks:
            value = results["pass_at_k"][name].get(str(k))
            interval = results["ci95"][name].get(str(k))
            text = "not reported" if value is None else f"{value:.4f}"
            if interval:
                text += f' <span class="muted">[{interval[0]:.4f}, {interval[1]:.4f}]</span>'
            cells.append(f'<td class="n">{text}</td>')
        yield f"<tr><td>{label}</td>{''.join(cells)}</tr>"
    yield "</table>"


def _iter_blocked(results: Mapping[str, Any]) -> Iterator[str]:
    for name, by_k in results["blocked_k"].items():
        for k, blocked in by_k.items():
            named = ", ".join(blocked["task_ids"])
            more = blocked["num_blocking"] - len(blocked["task_ids"])
            tail = f" and {more} more" if more > 0 else ""
            where = f": {named}{tail}" if named else ""
            text = f"pass@{k} over {_SCOPES[name]} is not reported: {blocked['reason']}{where}."
            yield f'<p class="muted">{_text(text)}</p>'


def _iter_counts(results: Mapping[str, Any]) -> Iterator[str]:
    yield '<table><tr><th>verdict</th><th class="n">samples</th></tr>'
    for kind, count in results["verdict_counts"].items():
        yield f'<tr><td>{_text(kind)}</td><td class="n">{count:,}</td></tr>'
    for flag, count in results["passed_with_flag"].items():
        label = _text(f"of those passed: {flag}")
        yield f'<tr><td>{label}</td><td class="n">{count:,}</td></tr>'
    yield "</table>"
    usable = ", ".join(f"{kind}: {count}" for kind, count in results["usable_counts"].items())
    yield f"<p>Usable in this environment: {_text(usable)}.</p>"


def _iter_problems(
    results: Mapping[str, Any], verdicts: Sequence[Mapping[str, object]]
) -> Iterator[str]:
    by_task: dict[str, list[Mapping[str, object]]] = defaultdict(list)
    for verdict in verdicts:
        by_task[str(verdict.get("task_id"))].append(verdict)
    yield '<table><tr><th>problem</th><th>notebook</th><th class="n">passed</th>'
    yield "<th>verdicts</th><th>first failure</th></tr>"
    for problem in results["problems"]:
        if problem["usable"] != "yes":
            continue
        own = by_task[problem["task_id"]]
        counts = Counter(str(verdict.get("verdict")) for verdict in own)
        listed = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
        failure = next((v for v in own if v.get("verdict") != "passed"), None)
        yield (
            f"<tr><td>{_text(problem['task_id'])}</td><td>{_text(problem['notebook'])}</td>"
            f'<td class="n">{problem["num_correct"]}/{problem["num_samples"]}</td>'
            f"<td>{_text(listed)}</td><td>{_render_failure(failure)}</td></tr>"
        )
    yield "</table>"


def _render_failure(verdict: Mapping[str, object] | None) -> str:
    if verdict is None:
        return ""
    parts = [f"<details><summary>{_text(verdict.get('message'))}</summary>"]
    for label in ("output_head", "traceback"):
        text = str(verdict.get(label) or "")
        if text:
            parts.append(f"<pre>{_text(text[-_EXAMPLE_CHARS:])}</pre>")
    return "".join(parts) + "</details>"


def _iter_left_out(results: Mapping[str, Any]) -> Iterator[str]:
    bad = [problem for problem in results["problems"] if problem["usable"] != "yes"]
    if not bad:
        return
    yield f"<h2>Not usable here ({len(bad)})</h2>"
    yield "<p>Samples of these problems are not run and never pass.</p>"
    yield "<table><tr><th>problem</th><th>reference</th><th>usable</th><th>why</th></tr>"
    for problem in bad:
        columns = ("task_id", "reference", "usable", "reason")
        row = "".join(f"<td>{_text(problem[column])}</td>" for column in columns)
        yield f"<tr>{row}</tr>"
    yield "</table>"


def _iter_settings(results: Mapping[str, Any]) -> Iterator[str]:
    yield "<table>"
    for group in ("settings", "environment"):
        for name, value in results[group].items():
            text = json.dumps(value) if isinstance(value, dict | list) else str(value)
            yield f"<tr><td>{_text(name)}</td><td>{_text(text)}</td></tr>"
    yield "</table>"


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
