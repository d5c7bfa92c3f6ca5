"""What the files of several runs say, as two tables: one row a run, one row a problem."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyt5.errors import ProblemSetError
from jupyt5.providers.texts import estimate_tokens
from jupyt5_dsp.jsonl import read_jsonl
from jupyt5_dsp.prompts import PromptSize, read_prompts
from jupyt5_dsp.report.settings import RunSettings, read_settings
from jupyt5_dsp.report.write import read_results

__all__ = ["CLASSES", "SCOPES", "ProblemRow", "RunRow", "read_run"]

SCOPES = ("valid", "distinct", "all", "attempted")
"""Sets of problems that pass@k is reported over; ``valid`` is the headline."""

CLASSES: Mapping[str, tuple[str, ...]] = {
    "passed": ("passed",),
    "wrong": ("wrong",),
    "syntax": ("syntax",),
    "error": ("error", "exit", "died"),
    "limits": ("timeout", "oom", "limit"),
    "not judged": ("context", "invalid"),
}
"""Failure classes by verdict; ``wrong`` is a failed assertion, or another output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemRow:
    """One problem of one run; None where nothing is known.

    ``reason`` says why it is not usable, ``wall_s`` and ``cpu_s`` are means over its samples'
    processes, ``completion_tokens`` a mean estimated from bytes.
    """

    run: str
    task_id: str
    usable: str
    reason: str
    num_samples: int
    num_correct: int
    prompt_tokens: int | None
    prompt_tokens_estimated: bool | None
    prompt_tokens_left_out: int | None
    completion_tokens: float | None
    generation_s: float | None
    wall_s: float | None
    cpu_s: float | None

    @property
    def pass_rate(self) -> float | None:
        """Share of its samples that passed."""
        return self.num_correct / self.num_samples if self.num_samples else None

    @property
    def whole_prompt_tokens(self) -> int | None:
        """Length of the prompt before anything of it was cut."""
        if self.prompt_tokens is None:
            return None
        return self.prompt_tokens + (self.prompt_tokens_left_out or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run: what ``results.json`` says, and means over its valid problems.

    ``pass_at_k`` and ``ci95`` are by name of a scope, then by k; ``curve`` has rows of k, pass@k
    over valid problems, and the ends of its interval. ``num_valid_attempted`` counts valid
    problems with samples, ``classes`` samples, ``num_prompts_cut`` valid problems of whose prompt
    a part did not fit the model; None where that was not noted.
    """

    run: str
    suite: str
    suite_version: str
    provider: str
    settings: RunSettings
    partial: bool
    num_problems: int
    num_valid: int
    num_distinct: int | None
    num_valid_attempted: int
    num_samples: int
    pass_at_k: Mapping[str, Mapping[int, float]]
    ci95: Mapping[str, Mapping[int, tuple[float, float]]]
    curve: tuple[tuple[float, ...], ...] = field(repr=False)
    classes: Mapping[str, int]
    prompt_tokens: float | None
    num_prompts_cut: int | None
    completion_tokens: float | None
    generation_s: float | None
    wall_s: float | None
    problems: tuple[ProblemRow, ...] = field(repr=False)


def read_run(run_path: Path, name: str = "") -> RunRow:
    """Read one run.

    Args:
        run_path: Its folder.
        name: What to call it; "" for the folder's name.

    Raises:
        ProblemSetError: If it is unfinished, or a file of it is damaged.
    """
    results = read_results(run_path)
    try:
        return _make_row(run_path, name or run_path.resolve().name, results)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        message = (
            f"A file of {run_path} is damaged or of an older version ({exc!r}). "
            "Repeat its dsp-eval run command."
        )
        raise ProblemSetError(message) from exc


def _make_row(run_path: Path, name: str, results: Mapping[str, Any]) -> RunRow:
    counts: Mapping[str, int] = results["verdict_counts"]
    problems = _read_problems(run_path, name, results)
    valid = [problem for problem in problems if problem.usable == "yes"]
    known = {kind for kinds in CLASSES.values() for kind in kinds}
    classes = {name: sum(counts.get(kind, 0) for kind in kinds) for name, kinds in CLASSES.items()}
    classes["error"] += sum(count for kind, count in counts.items() if kind not in known)
    return RunRow(
        run=name,
        suite=results["suite"],
        suite_version=results["suite_version"],
        provider=results["provider"],
        settings=read_settings(results),
        partial=bool(results["partial"]),
        num_problems=results["num_problems"],
        num_valid=results["num_valid"],
        num_distinct=results.get("num_distinct"),
        num_valid_attempted=sum(bool(one.num_samples) for one in valid),
        num_samples=results["num_samples"],
        pass_at_k={scope: _by_k(results["pass_at_k"], scope) for scope in SCOPES},
        ci95={
            scope: {k: tuple(ends) for k, ends in _by_k(results["ci95"], scope).items() if ends}
            for scope in SCOPES
        },
        curve=tuple(tuple(row) for row in results.get("curve", ())),
        classes=classes,
        prompt_tokens=_mean([one.prompt_tokens for one in valid]),
        num_prompts_cut=_count_cut(valid),
        completion_tokens=_mean([one.completion_tokens for one in valid]),
        generation_s=_mean([one.generation_s for one in valid]),
        wall_s=_mean([one.wall_s for one in valid]),
        problems=tuple(problems),
    )


def _count_cut(problems: Sequence[ProblemRow]) -> int | None:
    known = [one.prompt_tokens_left_out for one in problems]
    known = [num_left_out for num_left_out in known if num_left_out is not None]
    return sum(num_left_out > 0 for num_left_out in known) if known else None


def _by_k(values: Mapping[str, Mapping[str, Any]], scope: str) -> dict[int, Any]:
    return {int(k): value for k, value in values.get(scope, {}).items()}


@dataclass(slots=True)
class _Sums:
    """Of one problem's samples."""

    tokens: Counter[str] = field(default_factory=Counter[str])
    num_texts: Counter[str] = field(default_factory=Counter[str])
    wall_s: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    cpu_s: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])


def _read_problems(run_path: Path, name: str, results: Mapping[str, Any]) -> list[ProblemRow]:
    sizes = read_prompts(run_path)
    sums = _sum_samples(run_path)
    by_task: dict[str, list[tuple[float, float]]] = {}
    for key, wall_s in sums.wall_s.items():
        by_task.setdefault(key[0], []).append((wall_s, sums.cpu_s[key]))
    rows: list[ProblemRow] = []
    for problem in results["problems"]:
        task_id: str = problem["task_id"]
        size: PromptSize | None = sizes.get(task_id)
        times = by_task.get(task_id, [])
        num_texts = sums.num_texts[task_id]
        row = ProblemRow(
            run=name,
            task_id=task_id,
            usable=problem["usable"],
            reason=problem.get("reason", ""),
            num_samples=problem["num_samples"],
            num_correct=problem["num_correct"],
            prompt_tokens=size.num_tokens if size else None,
            prompt_tokens_estimated=size.is_estimate if size else None,
            prompt_tokens_left_out=size.num_left_out if size else None,
            completion_tokens=sums.tokens[task_id] / num_texts if num_texts else None,
            generation_s=size.generation_s if size else None,
            wall_s=_mean([wall_s for wall_s, _ in times]),
            cpu_s=_mean([cpu_s for _, cpu_s in times]),
        )
        rows.append(row)
    return rows


def _sum_samples(run_path: Path) -> _Sums:
    sums = _Sums()
    samples_path, verdicts_path = run_path / "samples.jsonl", run_path / "verdicts.jsonl"
    for record in read_jsonl(samples_path) if samples_path.is_file() else ():
        task_id = str(record.get("task_id"))
        sums.tokens[task_id] += estimate_tokens(str(record.get("completion") or ""))
        sums.num_texts[task_id] += 1
    for record in read_jsonl(verdicts_path) if verdicts_path.is_file() else ():
        # The last verdict on a sample counts.
        key = (str(record["task_id"]), int(str(record["sample_idx"])))
        sums.wall_s[key] = float(str(record["wall_s"]))
        sums.cpu_s[key] = float(str(record["cpu_s"]))
    return sums


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
