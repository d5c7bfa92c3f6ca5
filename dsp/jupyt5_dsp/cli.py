"""``dsp-eval``: validate a problem set, run a benchmark, report on a run."""

import argparse
import json
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from jupyt5 import console
from jupyt5_dsp import arguments

__all__ = ["main"]

_EXAMPLES = """examples:
  dsp-eval validate problems/ --timeout-s 60 --out validation.jsonl
  dsp-eval run --problems problems/ --samples gold --timeout-s 60 \\
    --validation validation.jsonl --out runs/gold
  dsp-eval run --problems problems/ --provider jupyt5:nano -n 20 --out runs/nano
  dsp-eval run --problems problems/ --samples samples.jsonl.gz -k 1,5 --out runs/file
  dsp-eval suites
  dsp-eval prompts --suite humaneval --problems HumanEval.jsonl.gz --out prompts.jsonl
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
    from jupyt5_dsp.commands import validate
    from jupyt5_dsp.printing import print_validation

    findings = validate(args)
    if args.json:
        print(json.dumps(findings, indent=2))
    else:
        print_validation(findings, print)
    return console.EXIT_OK


def _run(args: argparse.Namespace) -> int:
    from jupyt5_dsp.commands import run
    from jupyt5_dsp.printing import print_results

    results = run(args)
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        print_results(results, print)
        print(f"report: {args.out / 'report.html'}")
    return console.EXIT_OK


def _prompts(args: argparse.Namespace) -> int:
    from jupyt5_dsp.commands import export_prompts

    export_prompts(args, sys.stdout.write)
    return console.EXIT_OK


def _suites(args: argparse.Namespace) -> int:
    from jupyt5_dsp.commands import list_suites
    from jupyt5_dsp.printing import print_suites

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
    from jupyt5_dsp.curation.filters import render_counts
    from jupyt5_dsp.curation.survey import render_survey
    from jupyt5_dsp.data_commands import build, build_function_problems

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
    from jupyt5_dsp.data_commands import fetch

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
            formatter_class=arguments.HelpFormatter,
        )
        command.set_defaults(body=body, extra="dsp")
        return command

    arguments.add_validate(add_command("validate", "is each problem fit to judge here?", _validate))
    arguments.add_run(add_command("run", "grade samples and report pass@k", _run))
    arguments.add_prompts(add_command("prompts", "write what a model sees", _prompts))
    arguments.add_suites(add_command("suites", "which benchmarks there are", _suites))
    arguments.add_report(
        add_command("report", "make a run's page again, or one for several", _report)
    )
    arguments.add_compare(add_command("compare", "is run B better than run A?", _compare))
    arguments.add_env(
        add_command("env", "lock file for an environment that executes notebooks", _env)
    )
    build = add_command("build", "make a problem set out of nbgrader notebooks", _build)
    arguments.add_build(build)
    build.set_defaults(extra="curate", timeout_s=600.0)
    arguments.add_fetch(
        add_command("fetch", "get a suite's data from where they are published", _fetch)
    )
    return parser
