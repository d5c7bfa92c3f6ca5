"""The command ``jupyt5-corpus build``."""

import argparse
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from jupyt5 import console
from jupyt5.errors import UsageError
from jupyt5_corpus.filters.holdout import STEP as HOLDOUT
from jupyt5_corpus.filters.markdown_focused import STEP as MARKDOWN_FOCUSED
from jupyt5_corpus.holdout_lists import bundled_file, read_file
from jupyt5_corpus.workers import default_num_workers

if TYPE_CHECKING:
    from jupyt5_corpus.recipe import Recipe

__all__ = ["EXAMPLES", "add_command"]

EXAMPLES = """\
examples:
  jupyt5-corpus build shards/ --out corpus/
  jupyt5-corpus build 00.tar.zst clones/ --out corpus/ --workers 4 --opt-out out.jsonl
  jupyt5-corpus build shards/ --out corpus/ --recipe paper --holdout juice.jsonl --json
  jupyt5-corpus build shards/ --out corpus/ --engine slurm --sbatch partition=cpu \\
      --sbatch time=8:00:00
  jupyt5-corpus check corpus/
"""

logger = logging.getLogger(__name__)


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",  # pyright: ignore[reportPrivateUsage]
    common: argparse.ArgumentParser,
) -> None:
    """Add the command to the command line's parsers."""
    build = commands.add_parser(
        "build",
        parents=[common],
        help="build a corpus",
        description="Read notebooks, take the steps of a recipe, write Parquet. The holdout list "
        "of the DSP benchmark applies wherever the recipe has the step holdout. OUT appears when "
        "all is done; until then the work is in OUT.partial, and the same command goes on from "
        "there after a stop.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    build.add_argument(
        "sources",
        nargs="+",
        type=Path,
        metavar="SOURCE",
        help="folder of .tar/.tar.zst shards (with repos.jsonl and files.jsonl.zst, if there), of "
        "clones, or of notebooks; one archive; a bare repository; a .parquet file with the text "
        "columns repo (owner/name), path and content, and if known commit and licence",
    )
    build.add_argument("--out", type=Path, required=True, help="folder to make")
    _add_recipe_options(build)
    _add_engine_options(build)
    build.set_defaults(command=_build)


def _build(options: argparse.Namespace) -> int:
    from jupyt5_corpus.opt_out import load
    from jupyt5_corpus.recipe import load_recipe

    start_s = time.monotonic()
    if options.engine != "slurm" and (options.dry_run or options.sbatch):
        name = "--dry-run" if options.dry_run else "--sbatch"
        message = f"{name} is of use with --engine slurm only. Add that, or leave {name} out."
        raise UsageError(message)
    recipe = load_recipe(
        options.recipe,
        holdout_files=[read_file(path) for path in options.holdout],
        opt_out=load(options.opt_out) if options.opt_out else None,
    )
    if recipe.has(HOLDOUT):
        recipe = replace(recipe, holdout_files=(bundled_file(), *recipe.holdout_files))
    for skipped in recipe.skipped():
        logger.warning("Skipped: list %s; %s.", skipped["list"], skipped["reason"])
    result = _run(options, recipe)
    if isinstance(result, Path):
        print(json.dumps({"script": str(result)}) if options.json else result)
    elif options.json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        print(f"{options.out}  ({time.monotonic() - start_s:.1f} s)")
        print(_summary(result))
    return console.EXIT_OK


def _run(options: argparse.Namespace, recipe: "Recipe") -> Path | Mapping[str, object]:
    from jupyt5_corpus.build import build_corpus, submit_build
    from jupyt5_corpus.engines import LocalEngine, RayEngine, SlurmEngine

    workers, tasks = options.workers, options.tasks
    if options.engine == "slurm":
        engine = SlurmEngine(
            workers=workers, tasks=tasks, sbatch=dict(options.sbatch), is_dry_run=options.dry_run
        )
        return submit_build(options.sources, options.out, recipe=recipe, engine=engine)
    engine_class = RayEngine if options.engine == "ray" else LocalEngine
    return build_corpus(
        options.sources,
        options.out,
        recipe=recipe,
        engine=engine_class(workers=workers, tasks=tasks),
        num_hashers=workers,
    )


def _summary(manifest: Mapping[str, object]) -> str:
    from jupyt5_corpus.steps import SECRETS

    removed = cast("Mapping[str, int]", manifest["removed"])
    totals = cast("Mapping[str, int]", manifest["totals"])
    split = cast("Mapping[str, int]", manifest["split"])
    steps = cast("Sequence[str]", cast("Mapping[str, object]", manifest["recipe"])["steps"])
    # Of what no step looked for, nothing can be said.
    focused = {"of them Markdown focused": totals.get("num_markdown_focused", 0)}
    redacted = {"secrets and personal data replaced": totals.get("num_redactions", 0)}
    counts = {
        "notebooks in": cast("int", manifest["notebooks_in"]),
        **{f"removed: {reason}": count for reason, count in removed.items()},
        "notebooks kept": cast("int", manifest["notebooks_kept"]),
        **(focused if MARKDOWN_FOCUSED in steps else {}),
        "of them for validation": split["num_validation_notebooks"],
        "repositories": split["num_repositories"],
        "families of repositories": split["num_families"],
        "tokens (estimate)": totals.get("num_tokens_estimate", 0),
        **(redacted if SECRETS in steps else {}),
    }
    return "\n".join(f"{count:>14,}  {name}" for name, count in counts.items())


def _add_recipe_options(build: argparse.ArgumentParser) -> None:
    build.add_argument(
        "--recipe",
        default="default",
        metavar="NAME|FILE",
        help="default, paper, or a .yaml or .py file (default: %(default)s)",
    )
    build.add_argument(
        "--holdout",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="further holdout list: JSON lines with source and repo, content_sha256 or "
        "cell_sha256; may be given several times",
    )
    build.add_argument(
        "--opt-out",
        type=Path,
        metavar="FILE",
        help="JSON lines with owner, repo or content_sha256: notebooks to leave out",
    )


def _add_engine_options(build: argparse.ArgumentParser) -> None:
    build.add_argument(
        "--workers",
        type=_positive,
        default=default_num_workers(),
        metavar="N",
        help="processes; the result is the same for any number (default: %(default)s)",
    )
    build.add_argument(
        "--tasks",
        type=_positive,
        metavar="N",
        help="parts that a stage is cut into; the result is the same for any number "
        "(default: one an archive or 2,000 notebooks, up to 1,000)",
    )
    build.add_argument(
        "--engine",
        choices=("local", "ray", "slurm"),
        default="local",
        help="ray: the cluster of RAY_ADDRESS, else a new local one; slurm: job arrays, handed in "
        "with scripts in OUT.jobs (default: %(default)s)",
    )
    build.add_argument(
        "--sbatch",
        type=_key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of sbatch, e.g. partition=cpu, time=8:00:00; may be given several times",
    )
    build.add_argument(
        "--dry-run",
        action="store_true",
        help="with --engine slurm: hand nothing in; leaves the scripts in OUT.jobs and the build "
        "they would go on with in OUT.partial",
    )


def _key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number
