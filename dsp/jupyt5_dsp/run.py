"""One benchmark run: samples, validation, verdicts, results, report, all in one folder."""

import json
import logging
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from jupyt5.console import progress, watch_progress
from jupyt5.files import sha256_file, write_atomic
from jupyt5.providers import Provider, load_provider
from jupyt5_dsp.answers import has_fence
from jupyt5_dsp.fanout import Fanout, LocalFanout, RayFanout
from jupyt5_dsp.fingerprint import digest_model
from jupyt5_dsp.grader import Execution, Grader, describe_environment
from jupyt5_dsp.grading import GradedSample, grade_samples, read_verdicts
from jupyt5_dsp.jsonl import append_jsonl
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.prompts import measure_prompt, note_prompts, read_prompts
from jupyt5_dsp.report import write_references, write_report
from jupyt5_dsp.results import make_results
from jupyt5_dsp.run_folder import Clock, claim_folder
from jupyt5_dsp.sample_files import read_samples, write_samples
from jupyt5_dsp.samples import (
    Generation,
    Sample,
    generate_samples,
    make_gold,
    refuse_unasked,
)
from jupyt5_dsp.suites import Suite
from jupyt5_dsp.suites.options import CORRECTIONS
from jupyt5_dsp.validation import Validation, read_validations, validate_set

__all__ = ["GOLD", "RunConfig", "run_benchmark"]

GOLD = "gold"
Engine = Literal["local", "ray"]

logger = logging.getLogger(__name__)

_DEFAULT_KS = (1, 10, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """What one run is asked to do.

    Exactly one of ``provider_uri`` and ``samples`` is set; ``samples`` is a path or ``gold``.
    ``ks`` are the budgets to report; None for those of 1, 10, 100 that the samples allow. They are
    no part of what the run is. ``limit`` keeps the first so many problems.
    ``engine`` says where notebooks run: in processes here, or on a Ray cluster.
    ``validation_path`` names findings of ``dsp-eval validate`` to start from. ``strict`` counts
    passes with a suspicion flag as failed. ``options`` are the suite's, as its problems were read.
    """

    out_path: Path
    execution: Execution
    generation: Generation
    num_workers: int
    engine: Engine = "local"
    ks: tuple[int, ...] | None = None
    limit: int | None = None
    strict: bool = False
    provider_uri: str | None = None
    samples: str | None = None
    max_samples: int | None = None
    validation_path: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])


def run_benchmark(suite: Suite, problem_set: ProblemSet, config: RunConfig) -> dict[str, object]:
    """Do one run, or go on with it where it was broken off.

    Args:
        suite: Where the problems are from.
        problem_set: All of them, whatever the limit: findings on all hold for some, too.
        config: What is asked for.

    Returns:
        What ``results.json`` holds.

    Raises:
        UsageError: If the folder belongs to a run with other settings.
        Jupyt5Error: If samples cannot be had or nothing can be run; before a model is asked, if
            no problem can be executed.
        KeyboardInterrupt: If interrupted; what is graded so far is reported first, as partial.
    """
    environment = describe_environment(problem_set, config.execution)
    num_all = len(problem_set.problems)
    problem_set = problem_set.select(config.limit)
    if config.provider_uri:
        refuse_unasked(problem_set)
    provider = load_provider(config.provider_uri) if config.provider_uri else None
    given = _read_given(problem_set, config)
    known = read_validations(config.validation_path) if config.validation_path else []
    identity = _make_identity(suite, problem_set, environment, config)
    if len(problem_set.problems) < num_all:
        identity["settings"]["limit"] = config.limit
    claim_folder(config.out_path, identity)
    write_references(config.out_path, problem_set)
    run = _Run(problem_set, config, identity, environment)
    samples = run.ask(provider) if provider else run.take(given)
    try:
        run.grade(samples, known)
    except KeyboardInterrupt:
        run.conclude(samples, partial=True)
        raise
    return run.conclude(samples)


@dataclass(slots=True)
class _Run:
    """One session of a run, from validation to the report."""

    problem_set: ProblemSet
    config: RunConfig
    identity: Mapping[str, Any]
    environment: Mapping[str, object]
    clock: Clock = field(default_factory=Clock)

    @property
    def samples_path(self) -> Path:
        return self.config.out_path / "samples.jsonl"

    def ask(self, provider: Provider) -> list[Sample]:
        """Return the provider's samples; those that it gave before are kept."""
        try:
            with self.clock.phase("generation_s"):
                _generate(provider, self.problem_set, self.config, self.samples_path)
        except BaseException:
            self.clock.write(self.config.out_path / "timing.json")
            raise
        return read_samples(self.samples_path, self.problem_set)

    def take(self, given: list[Sample]) -> list[Sample]:
        """Return samples that need no provider; the folder gets a copy."""
        write_samples(self.samples_path, given)
        _note_prompts(self.problem_set, self.config)
        return given

    def grade(self, samples: Sequence[Sample], known: Sequence[Validation]) -> None:
        config = self.config
        with (
            Grader(self.problem_set, config.execution) as grader,
            _open_fanout(grader, config) as fanout,
        ):
            with self.clock.phase("validation_s"):
                findings = _validate(grader, self.environment, known, config, fanout)
            validations = {finding.task_id: finding for finding in findings}
            with (
                self.clock.phase("grading_s"),
                watch_progress("samples graded", "sample") as watch,
            ):
                grade_samples(
                    grader,
                    samples,
                    validations,
                    config.out_path / "verdicts.jsonl",
                    fanout=fanout,
                    watch=watch,
                )

    def conclude(self, samples: Sequence[Sample], *, partial: bool = False) -> dict[str, object]:
        """Write results, times and the report from the files of the run."""
        config, out_path = self.config, self.config.out_path
        validations = self._read_validations()
        ks = config.ks or _choose_ks(samples)
        graded: list[GradedSample] = []
        if (out_path / "verdicts.jsonl").is_file():
            graded = read_verdicts(out_path / "verdicts.jsonl", samples, validations)
        results = make_results(
            {**self.identity, "settings": {**self.identity["settings"], "ks": list(ks)}},
            self.problem_set,
            graded,
            validations,
            ks,
            seed=config.execution.seed,
            samples=samples,
            strict=config.strict,
            partial=partial,
        )
        write_atomic(out_path / "results.json", json.dumps(results, indent=2) + "\n")
        self.clock.write(out_path / "timing.json")
        write_report(out_path)
        if config.samples not in (None, GOLD):
            _hint_at_fences(samples, config)
        return results

    def _read_validations(self) -> dict[str, Validation]:
        path = self.config.out_path / "validation.jsonl"
        found = read_validations(path) if path.is_file() else []
        wanted = {problem.task_id for problem in self.problem_set.problems}
        # A later line replaces an earlier one, which was made under other conditions.
        return {one.task_id: one for one in found if one.task_id in wanted}


def _read_given(problem_set: ProblemSet, config: RunConfig) -> list[Sample]:
    """Return samples that need no provider."""
    if config.samples is None:
        return []
    if config.samples == GOLD:
        return make_gold(problem_set)
    return read_samples(Path(config.samples), problem_set, max_samples=config.max_samples)


def _hint_at_fences(samples: Sequence[Sample], config: RunConfig) -> None:
    num_fenced = sum(has_fence(one.completion) for one in samples)
    if num_fenced and config.options.get(CORRECTIONS.name) != "yes":
        text = "%d of %d samples hold Markdown fences: text from a file is executed as it is."
        logger.warning(text, num_fenced, len(samples))


def _choose_ks(samples: Sequence[Sample]) -> tuple[int, ...]:
    """Return the usual budgets for which every problem with samples has enough of them."""
    fewest = min(Counter(one.task_id for one in samples).values(), default=1)
    return tuple(k for k in _DEFAULT_KS if k <= fewest)


def _make_identity(
    suite: Suite, problem_set: ProblemSet, environment: Mapping[str, object], config: RunConfig
) -> dict[str, Any]:
    settings: dict[str, object] = {
        "problem_set": problem_set.digest(),
        "seed": config.execution.seed,
        "strict": config.strict,
        **asdict(config.execution.limits),
    }
    if config.options:
        settings["options"] = dict(config.options)
    if config.provider_uri is not None:
        provider = config.provider_uri
        settings |= asdict(config.generation)
        settings["model_sha256"] = digest_model(provider)
        if shown := problem_set.digest_shown():
            settings["shown"] = shown
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


def _generate(
    provider: Provider, problem_set: ProblemSet, config: RunConfig, samples_path: Path
) -> None:
    steps = generate_samples(provider, problem_set, config.generation, samples_path)
    total = len(problem_set.problems)
    known = read_prompts(config.out_path)
    for problem, wall_s in progress(steps, desc="problems answered", total=total, unit="problem"):
        if problem_set.explain_invalid(problem):
            continue  # it was not asked
        if wall_s is not None or problem.task_id not in known:
            size = measure_prompt(provider, problem_set, problem, config.generation)
            note_prompts(config.out_path, [replace(size, generation_s=wall_s)])
    sizes = read_prompts(config.out_path).values()
    if num_cut := sum(bool(size.num_left_out) for size in sizes):
        text = "%d of %d prompts did not fit the model, or --prompt-tokens: they were cut."
        logger.warning(text, num_cut, len(sizes))


def _note_prompts(problem_set: ProblemSet, config: RunConfig) -> None:
    """Note about how long prompts are where no model is asked."""
    known = read_prompts(config.out_path)
    todo = [
        problem
        for problem in problem_set.problems
        if problem.task_id not in known
        and (problem.shown is not None or not problem_set.explain_invalid(problem))
    ]
    sizes = [measure_prompt(None, problem_set, one, config.generation) for one in todo]
    note_prompts(config.out_path, sizes)


def _validate(
    grader: Grader,
    environment: Mapping[str, object],
    known: Sequence[Validation],
    config: RunConfig,
    fanout: Fanout,
) -> Sequence[Validation]:
    log_path = config.out_path / "validation.jsonl"
    if known and not log_path.exists():
        append_jsonl(log_path, [asdict(finding) for finding in known])
        text = "%s: its %d findings are copied to %s."
        logger.info(text, config.validation_path, len(known), log_path)
    with watch_progress("problems validated", "problem") as watch:
        return validate_set(
            grader,
            environment,
            fanout=fanout,
            log_path=log_path,
            watch=watch,
        )


@contextmanager
def _open_fanout(grader: Grader, config: RunConfig) -> Generator[Fanout]:
    if config.engine == "local":
        yield LocalFanout(grader, config.num_workers)
        return
    with RayFanout(grader.problem_set, config.execution, config.num_workers) as fanout:
        yield fanout
