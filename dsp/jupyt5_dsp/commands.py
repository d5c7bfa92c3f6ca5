"""What the commands of ``dsp-eval`` do between reading options and printing."""

import argparse
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jupyt5.console import progress, watch_progress
from jupyt5.errors import UsageError
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.jobs import Isolation, Limits
from jupyt5.execution.sandbox import choose_sandbox
from jupyt5.files import write_atomic
from jupyt5.providers import Sampling, load_provider
from jupyt5_dsp import suites
from jupyt5_dsp.grader import Execution, Grader, describe_environment
from jupyt5_dsp.jsonl import render_jsonl
from jupyt5_dsp.prompt_export import iter_prompts
from jupyt5_dsp.report import write_references, write_report
from jupyt5_dsp.report.write import read_results
from jupyt5_dsp.run import GOLD, RunConfig, run_benchmark
from jupyt5_dsp.run_folder import describe_kept, list_sibling_runs
from jupyt5_dsp.samples import Generation
from jupyt5_dsp.suites import PRESENTATION, Suite, find_suite, load_suite, read_options
from jupyt5_dsp.validation import validate_set

__all__ = [
    "export_prompts",
    "list_suites",
    "read_execution",
    "report",
    "run",
    "validate",
]

_DEFAULT_NUM_SAMPLES = 100
# Before a bar is shown.
_PATIENCE_S = 2.0


def validate(args: argparse.Namespace) -> dict[str, Any]:
    """Do ``dsp-eval validate``; returns its findings and their counts."""
    suite = find_suite(args.suite)
    options = _read_options(suite, args)
    problem_set = suite.load(args.problems, options)
    execution = read_execution(args, _list_hidden(args.problems))
    environment = describe_environment(problem_set, execution)
    problem_set = problem_set.select(args.limit)
    with (
        _tell_kept(lambda: f"{args.out} keeps the findings" if args.out else ""),
        Grader(problem_set, execution) as grader,
        watch_progress("problems validated", "problem") as watch,
    ):
        findings = validate_set(
            grader, environment, num_workers=args.workers, log_path=args.out, watch=watch
        )
    said = {problem.task_id: problem.passes_modern for problem in problem_set.problems}
    differing = [
        finding.task_id
        for finding in findings
        if said[finding.task_id] is not None
        and said[finding.task_id] != (finding.reference == "passed")
    ]
    return {
        "suite_version": suite.version,
        "options": options,
        "num_problems": len(findings),
        "num_valid": sum(finding.valid for finding in findings),
        "reference_counts": dict(sorted(Counter(f.reference for f in findings).items())),
        "usable_counts": dict(sorted(Counter(f.usable for f in findings).items())),
        "differs_from_passes_modern": differing,
        "environment": environment,
        "problems": [asdict(finding) for finding in findings],
    }


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Do ``dsp-eval run``; returns what ``results.json`` holds.

    Raises:
        UsageError: If several hypotheses are asked of greedy decoding, which has but one, or
            fewer are asked for than a k needs.
        KeyboardInterrupt: If interrupted; its text says what is kept.
    """
    num_samples = args.num_samples or _DEFAULT_NUM_SAMPLES
    _check_budgets(args, num_samples)
    suite = find_suite(args.suite)
    sampling = Sampling(
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        max_tokens=args.max_tokens,
    )
    options = _read_options(suite, args)
    problem_set = suite.load(args.problems, options)
    # Verdicts and findings in the run's folder quote what tests expect.
    hidden_paths = [*_list_hidden(args.problems), args.out]
    config = RunConfig(
        out_path=args.out,
        execution=read_execution(args, hidden_paths, _list_telling(args)),
        generation=_read_generation(args, sampling, num_samples=num_samples, seed=args.seed),
        num_workers=args.workers,
        engine=args.engine,
        ks=args.k,
        limit=args.limit,
        strict=args.strict,
        provider_uri=args.provider,
        samples=args.samples,
        max_samples=args.num_samples,
        validation_path=args.validation,
        options=options,
    )
    with _tell_kept(lambda: describe_kept(args.out)):
        return run_benchmark(suite, problem_set, config)


def export_prompts(args: argparse.Namespace, write: Callable[[str], object]) -> None:
    """Do ``dsp-eval prompts``.

    Args:
        args: Of the command.
        write: Takes each line as it comes, where ``--out`` is ``-``.

    Raises:
        UsageError: If the output file is there already.
    """
    out_path = None if args.out == "-" else Path(args.out)
    if out_path and out_path.exists():
        message = f"{out_path} is there already. Choose another --out, or remove it."
        raise UsageError(message)
    suite = find_suite(args.suite)
    problem_set = suite.load(args.problems, _read_options(suite, args)).select(args.limit)
    provider = load_provider(args.provider) if args.provider else None
    generation = _read_generation(args, Sampling(max_tokens=args.max_tokens), num_samples=1)
    lines: list[bytes] = []
    for record in progress(
        iter_prompts(provider, problem_set, generation),
        desc="prompts written",
        total=len(problem_set.problems),
        unit="prompt",
        delay_s=_PATIENCE_S,
    ):
        if record is None:
            continue
        line = render_jsonl([record])
        if out_path:
            lines.append(line)
        else:
            write(line.decode())
    if out_path:
        write_atomic(out_path, b"".join(lines))


def report(args: argparse.Namespace) -> Path:
    """Do ``dsp-eval report``; returns the path of the page.

    Raises:
        UsageError: If it is not clear where the page of several runs goes.
    """
    if args.out is not None:
        # In here: the page of one run needs no pandas.
        from jupyt5_dsp.overview import write_overview

        return write_overview(args.runs, args.out)
    if len(args.runs) > 1:
        message = "--out is missing. Name a folder for the report on several runs."
        raise UsageError(message)
    (run_path,) = args.runs
    if args.problems:
        results = read_results(run_path)
        suite = find_suite(results["suite"])
        given: Mapping[str, str] = results["settings"].get("options", {})
        write_references(run_path, load_suite(suite, args.problems, given))
    return write_report(run_path)


def list_suites() -> list[dict[str, Any]]:
    """Do ``dsp-eval suites``: what there is, and what can be chosen."""
    return [
        {
            "name": suite.name,
            "version": suite.version,
            "about": suite.about,
            "licence": suite.licence,
            "home": suite.home,
            "options": [asdict(option) for option in suite.options],
        }
        for suite in suites.list_suites()
    ]


def _read_options(suite: Suite, args: argparse.Namespace) -> dict[str, str]:
    given = dict(args.option)
    if args.presentation is not None:
        given[PRESENTATION] = args.presentation
    return read_options(suite.name, suite.options, given)


@contextmanager
def _tell_kept(describe: Callable[[], str]) -> Generator[None]:
    """Let an interrupt say what is kept, and that the same command goes on with it."""
    try:
        yield
    except KeyboardInterrupt:
        kept = describe()
        more = f"{kept}: repeat the command to go on from there." if kept else ""
        raise KeyboardInterrupt(more) from None


def _read_generation(
    args: argparse.Namespace, sampling: Sampling, *, num_samples: int, seed: int = 0
) -> Generation:
    return Generation(
        num_samples=num_samples,
        num_context_cells=args.context,
        num_following_cells=args.following,
        sampling=sampling,
        seed=seed,
        prompt_tokens=args.prompt_tokens,
    )


def _list_hidden(problems_path: Path) -> list[Path]:
    """Return the folder that nobody inside the sandbox may see: it has the answers."""
    return [problems_path if problems_path.is_dir() else problems_path.parent]


def _list_telling(args: argparse.Namespace) -> list[Path]:
    """Return folders with answers of other runs, and findings that quote what tests expect."""
    folders = list_sibling_runs(args.out)
    files = [args.validation, args.samples if args.samples != GOLD else None]
    return folders + [Path(file).parent for file in files if file]


def read_execution(
    args: argparse.Namespace, hidden_paths: Sequence[Path], telling_paths: Sequence[Path] = ()
) -> Execution:
    """Return how cells are executed.

    Args:
        args: Of a command that executes some.
        hidden_paths: Nobody in the sandbox sees these.
        telling_paths: Nor these, but where the interpreter lies among them.
    """
    interpreter = find_interpreter(args.python)
    # A samples file may lie beside the interpreter, which must be seen.
    shown = {path.resolve() for path in interpreter.shown_paths}
    hidden_paths = [*hidden_paths, *(one for one in telling_paths if one.resolve() not in shown)]
    isolation: Isolation = "kernel" if args.isolation == "kernel" else "fork"
    return Execution(
        interpreter=interpreter,
        sandbox=choose_sandbox(args.sandbox, interpreter, hidden_paths=hidden_paths),
        limits=Limits(
            timeout_s=args.timeout_s,
            context_timeout_s=args.context_timeout_s,
            memory_bytes=args.memory_mb << 20,
        ),
        seed=args.seed,
        isolation=isolation,
        forced=args.isolation == "fork",
    )


def _check_budgets(args: argparse.Namespace, num_samples: int) -> None:
    most = max(args.k or (1,))
    if args.provider and most > num_samples:
        message = (
            f"pass@{most} needs {most} hypotheses a problem, and -n asks for {num_samples}. "
            "Raise -n, or give a smaller -k."
        )
        raise UsageError(message)
    if args.provider and args.temperature == 0 and num_samples > 1:
        message = (
            f"--temperature 0 gives one hypothesis a problem, not {num_samples}. "
            "Use -n 1 with it, or a higher temperature."
        )
        raise UsageError(message)
