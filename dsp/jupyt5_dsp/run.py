"""One benchmark run: samples, validation, verdicts, results, report, all in one folder."""

import json
import logging
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from jupyt5.console import progress
from jupyt5.errors import UsageError
from jupyt5.execution.sandbox import Sandbox
from jupyt5.files import sha256_file, write_atomic
from jupyt5.providers import load_provider
from jupyt5_dsp.grader import Grader, describe_environment
from jupyt5_dsp.grading import grade_samples, read_verdicts
from jupyt5_dsp.jsonl import append_jsonl
from jupyt5_dsp.plans import Limits
from jupyt5_dsp.problems import ProblemSet, digest
from jupyt5_dsp.report import write_report
from jupyt5_dsp.results import make_results
from jupyt5_dsp.samples import (
    Generation,
    Sample,
    generate_samples,
    make_gold,
    read_samples,
    write_samples,
)
from jupyt5_dsp.suites import Suite
from jupyt5_dsp.validation import Validation, read_validations, validate_set

__all__ = ["RunConfig", "Watch", "run_benchmark", "watch_progress"]

GOLD = "gold"
_RUN_FILE = "run.json"

logger = logging.getLogger(__name__)

Watch = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """What one run is asked to do.

    Exactly one of ``provider_uri`` and ``samples`` is set; ``samples`` is a path or ``gold``.
    ``validation_path`` names findings of ``dsp-eval validate`` to start from.
    """

    out_path: Path
    ks: tuple[int, ...]
    limits: Limits
    generation: Generation
    seed: int
    num_workers: int
    provider_uri: str | None = None
    samples: str | None = None
    max_samples: int | None = None
    validation_path: Path | None = None


def run_benchmark(
    suite: Suite, problem_set: ProblemSet, sandbox: Sandbox, config: RunConfig
) -> dict[str, object]:
    """Do one run, or go on with it where it was broken off.

    Returns:
        What ``results.json`` holds.

    Raises:
        UsageError: If the folder belongs to a run with other settings.
        Jupyt5Error: If samples cannot be had or nothing can be run.
    """
    environment = describe_environment(problem_set, sandbox)
    given = _read_given(problem_set, config)
    identity = _make_identity(suite, problem_set, environment, config)
    out_path = config.out_path
    _claim_folder(out_path, identity)
    clock = _Clock()
    samples_path = out_path / "samples.jsonl"
    if given is None:
        with clock.phase("generation_s"):
            _generate(problem_set, config, samples_path)
        given = read_samples(samples_path, problem_set)
    else:
        write_samples(samples_path, given)
    with Grader(problem_set, sandbox, config.limits, config.seed) as grader:
        with clock.phase("validation_s"):
            findings = _validate(grader, environment, config)
        validations = {finding.task_id: finding for finding in findings}
        with clock.phase("grading_s"), watch_progress("samples graded", "sample") as watch:
            verdicts_path = out_path / "verdicts.jsonl"
            grade_samples(
                grader,
                given,
                validations,
                verdicts_path,
                num_workers=config.num_workers,
                watch=watch,
            )
    graded = read_verdicts(verdicts_path, given, validations)
    results = make_results(identity, problem_set, graded, validations, config.ks, seed=config.seed)
    write_atomic(out_path / "results.json", json.dumps(results, indent=2) + "\n")
    clock.write(out_path / "timing.json")
    write_report(out_path)
    return results


def _read_given(problem_set: ProblemSet, config: RunConfig) -> list[Sample] | None:
    """Return samples that need no provider; None for a provider."""
    if config.samples is None:
        return None
    if config.samples == GOLD:
        return make_gold(problem_set)
    return read_samples(Path(config.samples), problem_set, max_samples=config.max_samples)


def _make_identity(
    suite: Suite, problem_set: ProblemSet, environment: Mapping[str, object], config: RunConfig
) -> dict[str, object]:
    settings: dict[str, object] = {
        "problem_set": digest(
            [
                f"{problem!r} {cell.kind} {cell.source}"
                for problem in problem_set.problems
                for cell in problem_set.cells_of(problem)
            ]
        ),
        "ks": list(config.ks),
        "seed": config.seed,
        **asdict(config.limits),
    }
    if config.provider_uri is not None:
        provider = config.provider_uri
        settings |= asdict(config.generation)
    elif config.samples == GOLD:
        provider = GOLD
    else:
        path = Path(cast("str", config.samples))
        provider = f"samples:{path.name}"
        settings["samples_sha256"] = sha256_file(path)
        settings["max_samples"] = config.max_samples
    return {
        "suite": suite.name,
        "suite_version": suite.version,
        "provider": provider,
        "settings": settings,
        "environment": dict(environment),
    }


def _claim_folder(out_path: Path, identity: Mapping[str, object]) -> None:
    """Make the folder, or make sure that it belongs to this very run."""
    run_path = out_path / _RUN_FILE
    if run_path.is_file():
        before = json.loads(run_path.read_text(encoding="utf-8"))
        differing = sorted(_iter_differences(before, json.loads(json.dumps(identity))))
        if differing:
            message = (
                f"{out_path} holds a run with other settings ({'; '.join(differing[:5])}). "
                "Choose another --out, or repeat the command as it was to go on with that run."
            )
            raise UsageError(message)
        return
    if out_path.is_dir() and any(out_path.iterdir()):
        message = f"{out_path} is not empty and holds no run. Choose another --out."
        raise UsageError(message)
    out_path.mkdir(parents=True, exist_ok=True)
    write_atomic(run_path, json.dumps(identity, indent=2) + "\n")


def _iter_differences(before: object, after: object, name: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, object]", before), cast("dict[str, object]", after)
        for key in old.keys() | new.keys():
            yield from _iter_differences(old.get(key), new.get(key), f"{name}.{key}".strip("."))
    elif before != after:
        yield f"{name}: {before} there, {after} now"


def _generate(problem_set: ProblemSet, config: RunConfig, samples_path: Path) -> None:
    provider = load_provider(cast("str", config.provider_uri))
    steps = generate_samples(provider, problem_set, config.generation, samples_path)
    total = len(problem_set.problems)
    for _ in progress(steps, desc="problems answered", total=total, unit="problem"):
        pass


def _validate(
    grader: Grader, environment: Mapping[str, object], config: RunConfig
) -> Sequence[Validation]:
    log_path = config.out_path / "validation.jsonl"
    if config.validation_path and not log_path.exists():
        known = read_validations(config.validation_path)
        append_jsonl(log_path, [asdict(finding) for finding in known])
    with watch_progress("problems validated", "problem") as watch:
        return validate_set(
            grader,
            environment,
            num_workers=config.num_workers,
            log_path=log_path,
            watch=watch,
        )


@contextmanager
def watch_progress(desc: str, unit: str) -> Iterator[Watch]:
    """Yield a function (done, total) that keeps a progress bar on stderr."""
    ticks: list[Iterator[int]] = []
    shown = 0

    def watch(done: int, total: int) -> None:
        nonlocal shown
        if not ticks:
            ticks.append(progress(range(total), desc=desc, total=total, unit=unit))
        while shown < done:
            next(ticks[0], None)
            shown += 1

    yield watch
    for tick in ticks:
        for _ in tick:
            pass


class _Clock:
    """Times the phases of one session; a run that was broken off has several."""

    def __init__(self) -> None:
        self._session: dict[str, object] = {
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "host": platform.node(),
            "num_cpus": os.cpu_count(),
        }
        self._start_s = time.monotonic()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start_s = time.monotonic()
        yield
        self._session[name] = round(time.monotonic() - start_s, 2)

    def write(self, path: Path) -> None:
        self._session["total_s"] = round(time.monotonic() - self._start_s, 2)
        before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        sessions = [*before, self._session]
        write_atomic(path, json.dumps(sessions, indent=2) + "\n")
