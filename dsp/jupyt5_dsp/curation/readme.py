"""The page that tells where a built set comes from and what was done to it."""

from collections.abc import Mapping, Sequence

from jupyt5_dsp.curation.filters import render_counts
from jupyt5_dsp.curation.sources import Repository
from jupyt5_dsp.curation.survey import Survey, render_survey

__all__ = ["render_readme"]

_ABOUT = """# {name}: a problem set for dsp-eval

Made by `dsp-eval build` from nbgrader notebooks. Measure with

    dsp-eval run --problems THIS_FOLDER --validation THIS_FOLDER/validation.jsonl ...

`problems.jsonl` lists the problems; `rejected.jsonl` says for everything else why it is not there;
`validation.jsonl` holds what running the references showed here; `build.json` the settings.

Changed on purpose: outputs, execution counts, attachments and metadata of other tools are cleared;
nbgrader's marker lines (`### BEGIN SOLUTION`, `### BEGIN HIDDEN TESTS` and their ends) are removed,
what stands between them is kept; values of `NAME`, `COLLABORATORS`, `EMAIL` and the like in cells
outside the problems are emptied. Names in free text, comments, data files and paths were not
looked for: look before you publish.

## Where it comes from

Whoever publishes the set needs the right to do so for each of these.

| folder | from | commit | licence files |
|---|---|---|---|
"""


def render_readme(
    name: str,
    counts: Sequence[Mapping[str, object]],
    survey: Survey,
    repositories: Sequence[Repository],
) -> str:
    """Return the set's ``README.md``."""
    rows = [
        f"| {_cell(each.name)} | {_cell(each.url) or 'a local folder'} "
        f"| {each.commit or 'none'} | {_cell(', '.join(each.licence_files)) or 'none found'} |"
        for each in repositories
    ]
    return (
        _ABOUT.format(name=name)
        + "\n".join(rows)
        + "\n\n## What every filter left\n\n```\n"
        + render_counts(counts)
        + "\n```\n\n## What it is about\n\n"
        + render_survey(survey)
    )


def _cell(text: str) -> str:
    """Keep a name inside its cell of the table."""
    return text.replace("|", "\\|").replace("\n", " ")
