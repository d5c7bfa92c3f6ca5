"""What the commands of ``dsp-eval`` do between reading options and printing."""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyt5.errors import UsageError
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.jobs import Isolation, Limits
from jupyt5.execution.sandbox import choose_sandbox
from jupyt5.providers import Sampling
from jupyt5_dsp import suites
from jupyt5_dsp.grader import Execution, Grader, describe_environment
from jupyt5_dsp.report import write_references, write_report
from jupyt5_dsp.report.write import read_results
from jupyt5_dsp.run import GOLD, RunConfig, run_benchmark, watch_progress
from jupyt5_dsp.run_folder import list_sibling_runs
from jupyt5_dsp.samples import Generation
from jupyt5_dsp.suites import PRESENTATION, Suite, find_suite, load_suite, read_options
from jupyt5_dsp.validation import validate_set

if TYPE_CHECKING:
    from jupyt5_dsp.curation.build import Built
    from jupyt5_dsp.fetch import Fetched
    from jupyt5_dsp.fetch_files import FetchedFiles

__all__ = [
    "build",
    "build_function_problems",
    "fetch",
    "list_suites",
    "print_results",
    "print_suites",
    "print_validation",
    "report",
    "run",
    "validate",
]

_DEFAULT_NUM_SAMPLES = 100
Print = Callable[[str], None]


def validate(args: argparse.Namespace) -> dict[str, Any]:
    """Do ``dsp-eval validate``; returns its findings and their counts."""
    suite = find_suite(args.suite)
    options = _read_options(suite, args)
    problem_set = suite.load(args.problems, options).select(args.limit)
    execution = _read_execution(args, _list_hidden(args.problems))
    environment = describe_environment(problem_set, execution)
    with (
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


def print_validation(found: Mapping[str, Any], echo: Print) -> None:
    """Print findings for people: every problem that is not usable, then the counts."""
    problems: Sequence[Mapping[str, Any]] = found["problems"]
    for problem in problems:
        usable = problem["usable"]
        reason = f"  {problem['reason']}" if problem["reason"] else ""
        echo(
            f"{problem['task_id']:<12} reference {problem['reference']:<8} usable {usable}{reason}"
        )
    echo("")
    echo(f"problems: {found['num_problems']}, usable: {found['num_valid']}")
    groups = {
        "gold failing": [p for p in problems if p["usable"] == "no"],
        "test vacuous": [p for p in problems if p["usable"] == "vacuous"],
        "solved before": [p for p in problems if p["usable"] == "solved before"],
        "unstable": [p for p in problems if p["usable"] == "unstable"],
        "passed though a context cell raised": [
            p for p in problems if p["reference"] == "passed" and p["context_errors"]
        ],
    }
    for label, members in groups.items():
        ids = ", ".join(member["task_id"] for member in members)
        echo(f"{label}: {len(members)}" + (f" ({ids})" if members else ""))
    differing = found["differs_from_passes_modern"]
    echo(
        f"reference differs from passes_modern: {len(differing)}"
        + (f" ({', '.join(differing)})" if differing else "")
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Do ``dsp-eval run``; returns what ``results.json`` holds.

    Raises:
        UsageError: If several hypotheses are asked of greedy decoding, which has but one.
    """
    num_samples = args.num_samples or _DEFAULT_NUM_SAMPLES
    _check_greedy(args, num_samples)
    suite = find_suite(args.suite)
    sampling = Sampling(
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        max_tokens=args.max_tokens,
    )
    options = _read_options(suite, args)
    problem_set = suite.load(args.problems, options).select(args.limit)
    # Verdicts and findings in the run's folder quote what tests expect.
    hidden_paths = [*_list_hidden(args.problems), args.out]
    config = RunConfig(
        out_path=args.out,
        ks=args.k,
        execution=_read_execution(args, hidden_paths, _list_telling(args)),
        generation=Generation(
            num_samples=num_samples,
            num_context_cells=args.context,
            num_following_cells=args.following,
            sampling=sampling,
            seed=args.seed,
            prompt_tokens=args.prompt_tokens,
        ),
        num_workers=args.workers,
        engine=args.engine,
        strict=args.strict,
        provider_uri=args.provider,
        samples=args.samples,
        max_samples=args.num_samples,
        validation_path=args.validation,
        options=options,
    )
    return run_benchmark(suite, problem_set, config)


def build(args: argparse.Namespace) -> "Built":
    """Do ``dsp-eval build``.

    Raises:
        UsageError: If there is no repository, or neither an output folder nor ``--dry-run``.
    """
    if not args.repositories:
        message = "There is no repository. Name a clone or the folder of a course."
        raise UsageError(message)
    # In here: only this command needs nbgrader and datasketch.
    from jupyt5_dsp.curation.build import BuildConfig, build, preview

    if args.dry_run:
        return preview(args.repositories, limit=args.limit, keeps_duplicates=args.keep_duplicates)
    if args.out is None:
        message = "--out is missing. Name a new folder for the problem set, or use --dry-run."
        raise UsageError(message)
    config = BuildConfig(
        repository_paths=tuple(args.repositories),
        out_path=args.out,
        name=args.name or args.out.resolve().name,
        execution=_read_execution(args, []),
        num_workers=args.workers,
        keeps_duplicates=args.keep_duplicates,
        limit=args.limit,
    )
    return build(config)


def build_function_problems(args: argparse.Namespace) -> dict[str, object]:
    """Do ``dsp-eval build --functions``; returns counts.

    Raises:
        UsageError: If there is no output folder, or repositories are named, too.
    """
    from jupyt5_dsp.biocoder.build_functions import build_functions

    if args.repositories:
        message = "--functions takes one project, and no repositories beside it."
        raise UsageError(message)
    if args.out is None:
        message = "--out is missing. Name a new folder for the functions."
        raise UsageError(message)
    return build_functions(args.functions, args.out)


def fetch(args: argparse.Namespace) -> "Fetched | FetchedFiles":
    """Do ``dsp-eval fetch``.

    Raises:
        UsageError: If a manifest is given for files that have none.
    """
    from jupyt5_dsp.fetch import DEFAULT_MIRROR, FetchConfig, fetch
    from jupyt5_dsp.fetch_files import DATA_SETS, FILES_MIRROR, fetch_files
    from jupyt5_dsp.fetch_manifest import read_manifest

    if args.data != "dsp":
        if args.manifest:
            message = f"--manifest is for dsp only; the files of {args.data} are known."
            raise UsageError(message)
        mirror = args.mirror or FILES_MIRROR
        return fetch_files(args.data, args.out, mirror, DATA_SETS[args.data])
    config = FetchConfig(
        sources=read_manifest(args.manifest),
        out_path=args.out,
        mirror=args.mirror or DEFAULT_MIRROR,
        num_workers=args.workers,
    )
    return fetch(config)


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


def print_suites(found: Sequence[Mapping[str, Any]], echo: Print) -> None:
    """Print suites for people."""
    for suite in found:
        echo(f"{suite['name']:<10} {suite['version']:<14} {suite['about']}")
        echo(f"{'':<10} {suite['home']}  (licence of the data: {suite['licence']})")
        for option in suite["options"]:
            choices = ", ".join(option["choices"]) or "any value"
            echo(f"{'':<10} {option['name']}={option['default']}  ({choices}) {option['about']}")


def _read_options(suite: Suite, args: argparse.Namespace) -> dict[str, str]:
    given = dict(args.option)
    if args.presentation is not None:
        given[PRESENTATION] = args.presentation
    return read_options(suite.name, suite.options, given)


def _list_hidden(problems_path: Path) -> list[Path]:
    """Return the folder that nobody inside the sandbox may see: it has the answers."""
    return [problems_path if problems_path.is_dir() else problems_path.parent]


def _list_telling(args: argparse.Namespace) -> list[Path]:
    """Return folders with answers of other runs, and findings that quote what tests expect."""
    folders = list_sibling_runs(args.out)
    files = [args.validation, args.samples if args.samples != GOLD else None]
    return folders + [Path(file).parent for file in files if file]


def _read_execution(
    args: argparse.Namespace, hidden_paths: Sequence[Path], telling_paths: Sequence[Path] = ()
) -> Execution:
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


def _check_greedy(args: argparse.Namespace, num_samples: int) -> None:
    if args.provider and args.temperature == 0 and num_samples > 1:
        message = (
            f"--temperature 0 gives one hypothesis a problem, not {num_samples}. "
            "Use -n 1 with it, or a higher temperature."
        )
        raise UsageError(message)


def print_results(results: Mapping[str, Any], echo: Print) -> None:
    """Print pass@k and counts for people."""
    echo(f"{results['suite_version']}  {results['provider']}")
    echo(
        f"valid problems: {results['num_valid']}/{results['num_problems']}, "
        f"distinct tests: {results['num_distinct']}, left out (no samples): "
        f"{results['num_left_out']}, samples: {results['num_samples']}"
    )
    for scope, by_k in results["pass_at_k"].items():
        for k, value in by_k.items():
            interval = results["ci95"][scope].get(k)
            band = f"  [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else ""
            echo(f"pass@{k:<4} over {scope:<10} {value:.4f}{band}")
    for k, blocked in results["blocked_k"].get("valid", {}).items():
        named = f" ({', '.join(blocked['task_ids'][:3])}, …)" if blocked["task_ids"] else ""
        echo(f"pass@{k:<4} over valid      not reported: {blocked['reason']}{named}")
    for name in ("verdict_counts", "passed_with_flag"):
        counts = ", ".join(f"{kind} {count}" for kind, count in results[name].items())
        echo(f"{name.replace('_', ' ')}: {counts or 'none'}")
