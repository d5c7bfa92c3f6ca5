"""What the commands of ``dsp-eval`` do that make or get problems: ``build`` and ``fetch``."""

import argparse
from typing import TYPE_CHECKING

from jupyt5.errors import UsageError
from jupyt5_dsp.commands import read_execution

if TYPE_CHECKING:
    from jupyt5_dsp.curation.build import Built
    from jupyt5_dsp.fetch import Fetched
    from jupyt5_dsp.fetch_files import FetchedFiles

__all__ = ["build", "build_function_problems", "fetch"]


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
        execution=read_execution(args, []),
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
        UsageError: If a manifest is given for files that have none, or nobody publishes the data.
    """
    from jupyt5_dsp.fetch import DEFAULT_MIRROR, FetchConfig, fetch
    from jupyt5_dsp.fetch_files import DATA_SETS, FILES_MIRROR, fetch_files
    from jupyt5_dsp.fetch_manifest import read_manifest

    if args.data == "rosalind":
        message = (
            "Rosalind's problems cannot be fetched: its programs are published without ids, so "
            "nothing pairs them with their inputs. --suite rosalind reads a rosalind.jsonl with id "
            "and golden, and rosalind_testcases.tar.xz beside it."
        )
        raise UsageError(message)
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
