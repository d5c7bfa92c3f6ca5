"""The overview as plain rows, for CSV and Parquet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from jupyt5_dsp.overview.rows import CLASSES, SCOPES, RunRow

__all__ = ["TABLE_FILES", "list_ks", "list_problem_records", "list_run_records", "write_tables"]

TABLE_FILES = ("runs.csv", "runs.parquet", "problems.csv", "problems.parquet")

Record = Mapping[str, object]

_RUN_FIELDS = (
    "run",
    "suite",
    "suite_version",
    "provider",
    "partial",
    "num_problems",
    "num_valid",
    "num_distinct",
    "num_valid_attempted",
    "num_samples",
    "num_prompts_cut",
)


def list_ks(runs: Sequence[RunRow]) -> list[int]:
    """Return every k that some run reports."""
    return sorted({k for run in runs for by_k in run.pass_at_k.values() for k in by_k})


def list_run_records(runs: Sequence[RunRow]) -> list[dict[str, object]]:
    """Return one flat record a run, all with the same fields."""
    ks = list_ks(runs)
    records: list[dict[str, object]] = []
    for run in runs:
        record: dict[str, object] = {name: getattr(run, name) for name in _RUN_FIELDS}
        record |= {"strict": run.settings.strict, **run.settings.list_fields()}
        for k in ks:
            for scope in SCOPES:
                # The headline's columns bear no scope's name.
                name = f"pass_at_{k}" if scope == "valid" else f"pass_at_{k}_{scope}"
                low, high = run.ci95[scope].get(k, (None, None))
                record[name] = run.pass_at_k[scope].get(k)
                record |= {f"{name}_low": low, f"{name}_high": high}
        record |= {f"num_{name.replace(' ', '_')}": run.classes[name] for name in CLASSES}
        for name in ("prompt_tokens", "completion_tokens", "generation_s", "wall_s"):
            record[f"mean_{name}"] = getattr(run, name)
        records.append(record)
    return _fill_fields(records)


def list_problem_records(runs: Sequence[RunRow]) -> list[dict[str, object]]:
    """Return one flat record a problem of each run."""
    return [
        {
            "suite": run.suite,
            "suite_version": run.suite_version,
            "provider": run.provider,
            **asdict(problem),
        }
        for run in runs
        for problem in run.problems
    ]


def write_tables(out_path: Path, runs: Sequence[RunRow]) -> None:
    """Write ``runs`` and ``problems`` as CSV and Parquet.

    Raises:
        OSError: If a file cannot be written.
    """
    import pandas  # pyright: ignore[reportMissingTypeStubs]

    make_frame = cast("Callable[[Sequence[Record]], Any]", pandas.DataFrame)
    for name, records in (
        ("runs", list_run_records(runs)),
        ("problems", list_problem_records(runs)),
    ):
        # Integers stay integers where some runs have none.
        frame = make_frame(records).convert_dtypes()
        frame.to_csv(out_path / f"{name}.csv", index=False)
        frame.to_parquet(out_path / f"{name}.parquet", index=False)


def _fill_fields(records: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Give all records the fields of any, options beside each other."""
    names = dict.fromkeys(name for record in records for name in record)
    options = sorted(name for name in names if name.startswith("option_"))
    others = [name for name in names if not name.startswith("option_")]
    at = others.index("problem_set") + 1
    ordered = [*others[:at], *options, *others[at:]]
    return [{name: record.get(name) for name in ordered} for record in records]
