"""``dsp-eval``: validate a problem set, run a benchmark, report on a run."""

import argparse
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from jupyt5 import console

__all__ = ["main"]

_EXAMPLES = """examples:
  dsp-eval validate problems/ --timeout-s 60 --out validation.jsonl
  dsp-eval run --problems problems/ --samples gold --timeout-s 60 \\
    --validation validation.jsonl --out runs/gold
  dsp-eval run --problems problems/ --provider jupyt5:nano -n 20 --out runs/nano
  dsp-eval run --problems problems/ --samples samples.jsonl.gz -k 1,5 --out runs/file
  dsp-eval suites
  dsp-eval run --suite humaneval --problems HumanEval.jsonl.gz --samples gold --out runs/he
  dsp-eval report runs/nano
  dsp-eval report runs/nano runs/he runs/file --out overview/
  dsp-eval compare runs/nano runs/file
  dsp-eval env --name anaconda-2021
  dsp-eval build my-course/ --out problems/
  dsp-eval build --functions my-project/ --out functions/
  dsp-eval fetch dsp --out dsp/
  dsp-eval fetch humaneval --out data/

exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (repeat the command to go on)
"""

_VALIDATION_HELP = (
    "findings of dsp-eval validate to reuse, where limits, seed, environment and files are the same"
)


def main(argv: list[str] | None = None) -> int:
    """Run ``dsp-eval``; returns its exit code."""
    args = _make_parser().parse_args(argv)
    console.setup_logging(verbose=args.verbose)
    # Ended from outside, a run cleans up as after Ctrl-C; only a main thread may say so.
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    body = cast("Callable[[argparse.Namespace], int]", args.body)
    return console.run(lambda: body(args), extra=cast("str", args.extra))


def _validate(args: argparse.Namespace) -> int:
    from jupyt5_dsp.commands import print_validation, validate

    findings = validate(args)
    if args.json:
        print(json.dumps(findings, indent=2))
    else:
        print_validation(findings, print)
    return console.EXIT_OK


def _run(args: argparse.Namespace) -> int:
    from jupyt5_dsp.commands import print_results, run

    results = run(args)
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        print_results(results, print)
        print(f"report: {args.out / 'report.html'}")
    return console.EXIT_OK


def _suites(args: argparse.Namespace) -> int:
    from jupyt5_dsp.commands import list_suites, print_suites

    found = list_suites()
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        print_suites(found, print)
    return console.EXIT_OK


def _report(args: argparse.Namespace) -> int:
    from jupyt5_dsp.commands import report

    print(report(args))
    return console.EXIT_OK


def _compare(args: argparse.Namespace) -> int:
    from jupyt5_dsp.compare import compare_runs, describe_comparison

    found = compare_runs(args.a, args.b, seed=args.seed)
    print(json.dumps(found, indent=2) if args.json else "\n".join(describe_comparison(found)))
    return console.EXIT_OK


def _env(args: argparse.Namespace) -> int:
    from jupyt5_dsp.environments import describe_setup, find_environment, write_lock

    environment = find_environment(args.name)
    out_path = args.out or Path(f"dsp-{environment.name}.txt")
    write_lock(environment, out_path)
    print(describe_setup(environment, out_path), end="")
    return console.EXIT_OK


def _build(args: argparse.Namespace) -> int:
    from jupyt5_dsp.commands import build, build_function_problems
    from jupyt5_dsp.curation.filters import render_counts
    from jupyt5_dsp.curation.survey import render_survey

    if args.functions:
        print(json.dumps(build_function_problems(args), indent=2))
        return console.EXIT_OK
    built = build(args)
    if args.json:
        print(json.dumps(built.to_record(), indent=2))
    else:
        print(f"{render_counts(built.counts)}\n\n{render_survey(built.survey)}", end="")
    return console.EXIT_OK


def _fetch(args: argparse.Namespace) -> int:
    from jupyt5_dsp.commands import fetch

    fetched = fetch(args)
    if args.json:
        print(json.dumps(fetched.to_record(), indent=2))
    else:
        print(fetched.describe(args.out), end="")
    return console.EXIT_OK if fetched.is_complete else console.EXIT_FAILED


def _make_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="dsp-eval", description=__doc__, epilog=_EXAMPLES, formatter_class=raw
    )
    parser.add_argument("--verbose", action="store_true", help="say more on stderr")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add_command(name: str, about: str, body: object) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=about,
            description=about.capitalize(),
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        command.set_defaults(body=body, extra="dsp")
        return command

    validate = add_command("validate", "is each problem fit to judge here?", _validate)
    _add_validate(validate)
    _add_execution(validate)
    run = add_command("run", "grade samples and report pass@k", _run)
    _add_run(run)
    _add_execution(run)
    suites = add_command("suites", "which benchmarks there are", _suites)
    suites.add_argument("--json", action="store_true", help="print JSON on stdout")
    _add_report(add_command("report", "make a run's page again, or one for several", _report))
    _add_compare(add_command("compare", "is run B better than run A?", _compare))
    _add_env(add_command("env", "lock file for an environment that executes notebooks", _env))
    build = add_command("build", "make a problem set out of nbgrader notebooks", _build)
    _add_build(build)
    _add_execution(build)
    build.set_defaults(extra="curate", timeout_s=600.0)
    _add_fetch(add_command("fetch", "get a suite's data from where they are published", _fetch))
    return parser


def _add_validate(validate: argparse.ArgumentParser) -> None:
    validate.add_argument(
        "problems", type=Path, metavar="PATH", help="folder with problems.jsonl, or a suite's file"
    )
    _add_suite(validate)
    validate.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write findings here as they come; a broken validation goes on from them",
    )


def _add_suite(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--suite", default="dsp", help="benchmark; dsp-eval suites lists them")
    add("--presentation", metavar="NAME", help="how its problems are shown (default: the first)")
    add(
        "--option",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another of the suite's options; may be repeated",
    )


def _add_report(report: argparse.ArgumentParser) -> None:
    add = report.add_argument
    add("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run")
    add("--out", type=Path, metavar="DIR", help="of several runs: page, CSV, Parquet and Markdown")
    add("--problems", type=Path, metavar="PATH", help="take one run's references from here again")


def _add_env(env: argparse.ArgumentParser) -> None:
    env.add_argument("--name", default="anaconda-2021", help="anaconda-2021 or modern")
    env.add_argument("--out", type=Path, metavar="FILE", help="lock file (default: dsp-NAME.txt)")


def _add_compare(compare: argparse.ArgumentParser) -> None:
    add = compare.add_argument
    add("a", type=Path, metavar="A", help="folder of a finished run")
    add("b", type=Path, metavar="B", help="another one over the same problems")
    add("--seed", type=_not_negative, default=0, help="of the intervals")
    add("--json", action="store_true", help="print JSON on stdout")


def _add_build(build: argparse.ArgumentParser) -> None:
    add = build.add_argument
    add("repositories", type=Path, nargs="*", metavar="REPO", help="clone, or folder of a course")
    add("--functions", type=Path, metavar="PROJECT", help="problems from a project's functions")
    add("--out", type=Path, metavar="DIR", help="folder of the set; a broken build goes on from it")
    add("--name", help="first part of the task ids (default: name of the folder)")
    add("--keep-duplicates", action="store_true", help="keep near-duplicates, as DSP did")
    add("--dry-run", action="store_true", help="only the filters that run and write nothing")


def _add_fetch(fetch: argparse.ArgumentParser) -> None:
    add = fetch.add_argument
    sets = ("dsp", "humaneval", "mbpp", "biocoder")
    add("data", nargs="?", default="dsp", choices=sets, metavar="SUITE", help=", ".join(sets))
    add("--out", type=Path, required=True, metavar="DIR", help="folder of the set")
    add("--mirror", metavar="BASE", help="address or folder before owner/name (default: GitHub's)")
    add("--manifest", type=Path, metavar="FILE", help="dsp: list of problems (default: DSP's)")
    add("--workers", type=_count, default=4, help="dsp: repositories at a time")
    add("--json", action="store_true", help="print JSON on stdout")


def _add_run(run: argparse.ArgumentParser) -> None:
    add = run.add_argument
    add(
        "--problems", type=Path, required=True, metavar="PATH", help="folder, or a suite's own file"
    )
    _add_suite(run)
    source = run.add_mutually_exclusive_group(required=True)
    source.add_argument("--provider", metavar="URI", help="model to ask, e.g. jupyt5:nano")
    source.add_argument("--samples", metavar="FILE|gold", help="completions, or the references")
    add("--out", type=Path, required=True, metavar="RUN", help="folder of the run")
    add(
        "-n",
        type=_count,
        dest="num_samples",
        metavar="N",
        help=("hypotheses a problem (default with --provider: 100); the most taken from --samples"),
    )
    add("-k", type=_ks, default=(1, 10, 100), metavar="K,K", help="budgets of pass@k")
    count = _not_negative
    add("--context", type=count, default=3, metavar="C", help="cells before that the model sees")
    add("--following", type=count, default=1, metavar="F", help="cells after that the model sees")
    add(
        "--prompt-tokens",
        type=_count,
        default=8192,  # what BioCoder's authors gave to all models
        help="most tokens of what it sees; a model's own limit holds, too",
    )
    add("--temperature", type=float, default=0.8, help="0 is greedy, and needs -n 1")
    add("--top-p", type=float, default=0.95, help="nucleus mass")
    add("--top-k", type=_not_negative, default=0, help="most likely tokens kept; 0 keeps all")
    add("--max-tokens", type=_count, default=256, help="longest hypothesis in tokens")
    add("--validation", type=Path, metavar="FILE", help=_VALIDATION_HELP)
    add(
        "--engine",
        default="local",
        choices=("local", "ray"),
        help="ray: notebooks run on the cluster of RAY_ADDRESS, else on a new local one",
    )
    add("--strict", action="store_true", help="count passes with a suspicion flag as failed")


def _add_execution(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--timeout-s",
        type=_seconds,
        default=10.0,
        help="processor seconds for solution and grading cells together; thrice that on the clock",
    )
    add("--context-timeout-s", type=_seconds, default=600.0, help="wall seconds for another cell")
    add("--memory-mb", type=_count, default=4096, help="of a sample, beyond its context cells")
    add("--workers", type=_count, default=os.cpu_count() or 1, help="notebooks at a time")
    add("--limit", type=_count, metavar="N", help="only the first N problems")
    add("--seed", type=_not_negative, default=0, help="of hypotheses, hash seeds and intervals")
    add("--python", type=Path, metavar="PATH", help="interpreter that executes the notebooks")
    add(
        "--isolation",
        default="auto",
        choices=("auto", "fork", "kernel"),
        help="auto: fork samples where that is sound; kernel: a fresh process for each",
    )
    add(
        "--sandbox",
        default="auto",
        metavar="auto|namespaces|bwrap|none",
        help="wall around the code; none: no protection; auto: what works here, or a refusal",
    )
    add("--json", action="store_true", help="print JSON on stdout")


def _option(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        message = f"{text} is not NAME=VALUE"
        raise argparse.ArgumentTypeError(message)
    return name, value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        message = f"{text} is not 1 or more"
        raise argparse.ArgumentTypeError(message)
    return value


def _not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        message = f"{text} is not 0 or more"
        raise argparse.ArgumentTypeError(message)
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        message = f"{text} is not a positive number of seconds"
        raise argparse.ArgumentTypeError(message)
    return value


def _ks(text: str) -> tuple[int, ...]:
    try:
        ks = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        ks = ()
    if not ks or ks[0] < 1:
        message = f"{text} is not a list of numbers from 1 up, as in 1,10,100"
        raise argparse.ArgumentTypeError(message)
    return ks
