"""The arguments of ``dsp-eval``'s commands: names, defaults, and what is a wrong value."""

import argparse
import os
from pathlib import Path

__all__ = [
    "HelpFormatter",
    "add_build",
    "add_compare",
    "add_env",
    "add_fetch",
    "add_prompts",
    "add_report",
    "add_run",
    "add_suites",
    "add_validate",
]

_VALIDATION_HELP = (
    "findings of dsp-eval validate to reuse, where limits, seed, environment and files are the same"
)


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, where there is one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_none = action.default is None or action.default is False or action.default == []
        return action.help if has_none else super()._get_help_string(action)


def add_validate(validate: argparse.ArgumentParser) -> None:
    """Add what ``validate`` takes."""
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
    _add_execution(validate)


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


def add_report(report: argparse.ArgumentParser) -> None:
    """Add what ``report`` takes."""
    add = report.add_argument
    add("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run")
    add("--out", type=Path, metavar="DIR", help="of several runs: page, CSV, Parquet and Markdown")
    add("--problems", type=Path, metavar="PATH", help="take one run's references from here again")


def add_env(env: argparse.ArgumentParser) -> None:
    """Add what ``env`` takes."""
    env.add_argument("--name", default="anaconda-2021", help="anaconda-2021 or modern")
    env.add_argument("--out", type=Path, metavar="FILE", help="lock file (default: dsp-NAME.txt)")


def add_compare(compare: argparse.ArgumentParser) -> None:
    """Add what ``compare`` takes."""
    add = compare.add_argument
    add("a", type=Path, metavar="A", help="folder of a finished run")
    add("b", type=Path, metavar="B", help="another one over the same problems")
    add("--seed", type=_not_negative, default=0, help="of the intervals")
    add("--json", action="store_true", help="print JSON on stdout")


def add_build(build: argparse.ArgumentParser) -> None:
    """Add what ``build`` takes."""
    add = build.add_argument
    add("repositories", type=Path, nargs="*", metavar="REPO", help="clone, or folder of a course")
    add("--functions", type=Path, metavar="PROJECT", help="problems from a project's functions")
    add("--out", type=Path, metavar="DIR", help="folder of the set; a broken build goes on from it")
    add("--name", help="first part of the task ids (default: name of the folder)")
    add("--keep-duplicates", action="store_true", help="keep near-duplicates, as DSP did")
    add("--dry-run", action="store_true", help="only the filters that run and write nothing")
    _add_execution(build)


def add_fetch(fetch: argparse.ArgumentParser) -> None:
    """Add what ``fetch`` takes."""
    add = fetch.add_argument
    sets = ("dsp", "humaneval", "mbpp", "biocoder")
    names = (*sets, "rosalind")  # the last one to say why not
    add("data", nargs="?", default="dsp", choices=names, metavar="SUITE", help=", ".join(sets))
    add("--out", type=Path, required=True, metavar="DIR", help="folder of the set")
    add(
        "--mirror",
        metavar="BASE",
        help="address or folder that stands in for GitHub's: dsp is cloned from BASE/owner/name, "
        "files are read from BASE/owner/name/commit/path",
    )
    add("--manifest", type=Path, metavar="FILE", help="dsp: list of problems (default: DSP's)")
    add("--workers", type=_count, default=4, help="dsp: repositories at a time")
    add("--json", action="store_true", help="print JSON on stdout")


def add_run(run: argparse.ArgumentParser) -> None:
    """Add what ``run`` takes."""
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
    add(
        "-k",
        type=_ks,
        metavar="K,K",
        help="budgets of pass@k (default: those of 1,10,100 for which there are enough samples)",
    )
    _add_sight(run)
    add("--temperature", type=float, default=0.8, help="0 is greedy, and needs -n 1")
    add("--top-p", type=float, default=0.95, help="nucleus mass")
    add("--top-k", type=_not_negative, default=0, help="most likely tokens kept; 0 keeps all")
    add("--validation", type=Path, metavar="FILE", help=_VALIDATION_HELP)
    add(
        "--engine",
        default="local",
        choices=("local", "ray"),
        help="ray: notebooks run on the cluster of RAY_ADDRESS, else on a new local one",
    )
    add("--strict", action="store_true", help="count passes with a suspicion flag as failed")
    _add_execution(run)


def add_suites(suites: argparse.ArgumentParser) -> None:
    """Add what ``suites`` takes."""
    suites.add_argument("--json", action="store_true", help="print JSON on stdout")


def add_prompts(prompts: argparse.ArgumentParser) -> None:
    """Add what ``prompts`` takes."""
    add = prompts.add_argument
    add(
        "--problems", type=Path, required=True, metavar="PATH", help="folder, or a suite's own file"
    )
    _add_suite(prompts)
    add("--provider", metavar="URI", help="write what this model would be given (default: text)")
    _add_sight(prompts)
    add("--limit", type=_count, metavar="N", help="only the first N problems")
    add("--out", default="-", metavar="FILE|-", help="a new file; -: stdout")


def _add_sight(parser: argparse.ArgumentParser) -> None:
    """Add how much a model sees, and how much it may write."""
    add, count = parser.add_argument, _not_negative
    add("--context", type=count, default=3, metavar="C", help="cells before that the model sees")
    add("--following", type=count, default=1, metavar="F", help="cells after that the model sees")
    add(
        "--prompt-tokens",
        type=_count,
        default=8192,  # what BioCoder's authors gave to all models
        help="most tokens of what it sees; a model's own limit holds, too",
    )
    add("--max-tokens", type=_count, default=256, help="longest hypothesis in tokens")


def _add_execution(parser: argparse.ArgumentParser) -> None:
    """Add how cells are executed."""
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
