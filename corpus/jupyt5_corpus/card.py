"""The dataset card: ``README.md`` of a corpus, in the form that Hugging Face's hub reads."""

# pyarrow comes without types.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from collections.abc import Mapping, Sequence
from typing import cast

from jupyt5_corpus.benchmark_sources import BENCHMARKS
from jupyt5_corpus.filters import holdout, markdown_focused
from jupyt5_corpus.steps import OVERLAP, SECRETS
from jupyt5_corpus.tables import CORPUS_SCHEMA

__all__ = ["CARD_NAME", "render"]

CARD_NAME = "README.md"

_COLUMNS = {
    "repo": "repository, `owner/name`",
    "path": "path in the repository",
    "commit": "commit the file was taken from, where known",
    "blob_sha": "git blob id of the original file",
    "licence": "SPDX expression of the repository's licence, where known",
    "licence_source": "where the licence was read",
    "nbformat": "major version of the notebook format",
    "language": "programming language",
    "kernel": "kernel's name",
    "cells": "cells in order: kind (code, markdown, raw) and source",
    "num_code": "code cells",
    "num_markdown": "Markdown cells",
    "markdown_fraction": "Markdown cells among all cells",
    "num_tokens_estimate": "bytes of all sources / 3.5",
    "content_hash": "SHA-256 of kinds and sources as found, before anything was redacted",
    "retrieved": "when the source was fetched, where known",
    "markdown_focused": "at least one code cell, and a third of the cells or more is Markdown",
    "fork_of": "repository that this one is a known fork of",
    "num_redactions": "secrets and personal data replaced by placeholders",
    "signals": "quality signals",
    "duplicate_cluster": "content hash, where other notebooks went in favour of this one",
    "family": "repositories with shared content or forks of each other have one family",
    "split": "train or validation, decided by the family",
}

_TEMPLATE = """\
---
pretty_name: Jupyter notebooks
task_categories:
- text-generation
tags:
- jupyter
- code
configs:
- config_name: default
  data_files: data/*.parquet
---

# Jupyter notebooks, made with the recipe `{name}`

{num_kept} notebooks of {num_repositories} repositories, one a row, with {num_code_cells} code
cells, {num_markdown_cells} Markdown cells and about {num_tokens} tokens (source bytes / 3.5).
{focused}Made by `jupyt5-corpus build` {version}.

## What was done

{num_in} notebooks of {repositories_in} repositories came in; `removed/` lists every one that did
not stay, with its reason.

| step | in | out | removed |
| --- | ---: | ---: | --- |
{steps}
{skipped}
{held_out}
{secrets}
## Columns

| column | type | content |
| --- | --- | --- |
{columns}

`split` is for training ({num_train} notebooks) and validation ({num_validation}): {rule}.

## Licences and opting out

Each notebook stays under the licence of its repository (`licence`, read by software, not by a
lawyer); a licence file says nothing about text that a notebook quotes. Whoever wants a notebook,
repository or account left out can be served without building anew: `jupyt5-corpus opt-out`.

## Making it again

`manifest.json` has the SHA-256 of every input and output file, the recipe and all versions. The
same input, recipe and versions give the same bytes. `jupyt5-corpus check` verifies a copy.
"""


def render(manifest: Mapping[str, object]) -> str:
    """Write the card of the corpus that a manifest describes."""
    recipe = cast("Mapping[str, object]", manifest["recipe"])
    totals = cast("Mapping[str, int]", manifest["totals"])
    split = cast("Mapping[str, int]", manifest["split"])
    steps = cast("Sequence[Mapping[str, object]]", manifest["steps"])
    skipped = cast("Sequence[Mapping[str, str]]", recipe["skipped"])
    num_redactions = totals.get("num_redactions", 0)
    taken = cast("Sequence[str]", recipe["steps"])
    num_focused = _number(totals.get("num_markdown_focused", 0))
    return _TEMPLATE.format(
        name=recipe["name"],
        version=cast("Mapping[str, str]", manifest["versions"])["jupyt5"],
        num_in=_number(manifest["notebooks_in"]),
        num_kept=_number(manifest["notebooks_kept"]),
        num_repositories=_number(split["num_repositories"]),
        repositories_in=_number(manifest["repositories_in"]),
        num_code_cells=_number(totals.get("num_code_cells", 0)),
        num_markdown_cells=_number(totals.get("num_markdown_cells", 0)),
        num_tokens=_number(totals.get("num_tokens_estimate", 0)),
        focused=_FOCUSED.format(num_focused) if markdown_focused.STEP in taken else "",
        num_train=_number(split["num_train_notebooks"]),
        num_validation=_number(split["num_validation_notebooks"]),
        rule=recipe["split"],
        steps="\n".join(map(_render_step, steps)),
        skipped="".join(f"\nSkipped: list {each['list']}, {each['reason']}.\n" for each in skipped),
        held_out=_describe_held_out(recipe),
        secrets=_SECRETS.format(_number(num_redactions)) if SECRETS in taken else "",
        columns="\n".join(
            f"| `{field.name}` | {field.type} | {_COLUMNS[field.name]} |" for field in CORPUS_SCHEMA
        ),
    )


_FOCUSED = "{} notebooks are Markdown focused. "
_SECRETS = """
{} secrets and pieces of personal data were replaced by placeholders, found by software: some will
have been missed.
"""


_REPORTS = """\
`decontamination.jsonl` and `decontamination.html` name every notebook that was removed for one,
with the matched text."""


def _describe_held_out(recipe: Mapping[str, object]) -> str:
    """Say what was held out: by lists, and by the n-grams of which benchmarks."""
    steps = cast("Sequence[str]", recipe["steps"])
    lines: list[str] = []
    if holdout.STEP in steps:
        lists = cast("Sequence[Mapping[str, str]]", recipe["holdouts"])
        names = ", ".join(f"`{each['file']}`" for each in lists) or "none"
        lines.append(f"Benchmarks were held out with these lists: {names}.")
    if OVERLAP in steps:
        *names, last = BENCHMARKS
        lines.append(
            f"Notebooks that hold a problem of {', '.join(names)} or {last}, whole or\n"
            "edited, were removed too."
        )
    if not lines:
        return "No benchmark was held out."
    return "\n".join([*lines, _REPORTS])


def _render_step(step: Mapping[str, object]) -> str:
    removed = cast("Mapping[str, int]", step["removed"])
    reasons = ", ".join(f"{reason} {_number(count)}" for reason, count in removed.items())
    counts = f"{_number(step['notebooks_in'])} | {_number(step['notebooks_out'])}"
    return f"| {step['step']} | {counts} | {reasons} |"


def _number(value: object) -> str:
    return f"{cast('int', value):,}"
