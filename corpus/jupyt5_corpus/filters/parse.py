"""Step ``parse``: a notebook file becomes a row, or is removed because it cannot be read."""

from jupyt5.errors import NotebookError
from jupyt5.notebook import Notebook, read_notebook
from jupyt5_corpus.content import content_hash, estimate_num_tokens, git_blob_sha, is_substantial
from jupyt5_corpus.metadata import Repository
from jupyt5_corpus.row import CellText, Removal, Row
from jupyt5_corpus.sources import RawFile

__all__ = ["STEP", "parse"]

STEP = "parse"
_MAX_DETAIL_CHARS = 300
_MAX_NBFORMAT = 99


def parse(raw_file: RawFile, repository: Repository, *, blob_sha: str | None) -> Row | Removal:
    """Read one file.

    Args:
        raw_file: The file; one that could not be read keeps its own reason.
        repository: What is known about its repository.
        blob_sha: Git blob id of the original, where the file is a shortened copy of it; None to
            take the id of the bytes at hand.
    """
    location = raw_file.location
    commit = location.old_commit or repository.commit
    reason, detail, notebook = "invalid_notebook", "", None
    if raw_file.data is None:
        reason, detail = raw_file.problem or ("unreadable_file", "")
    else:
        blob_sha = blob_sha or git_blob_sha(raw_file.data)
        try:
            notebook = read_notebook(raw_file.data, name=location.path)
        except NotebookError as exc:
            detail = str(exc)
        if notebook is not None and notebook.nbformat > _MAX_NBFORMAT:
            detail, notebook = f"nbformat is {notebook.nbformat}", None
    if notebook is None:
        return Removal(
            repo=location.repo,
            path=location.path,
            commit=commit,
            blob_sha=blob_sha,
            fork_of=repository.fork_of,
            content_hash=None,
            is_substantial=False,
            step=STEP,
            reason=reason,
            detail=detail[:_MAX_DETAIL_CHARS],
        )
    return _make_row(notebook, raw_file, repository, commit=commit, blob_sha=blob_sha or "")


def _make_row(
    notebook: Notebook,
    raw_file: RawFile,
    repository: Repository,
    *,
    commit: str | None,
    blob_sha: str,
) -> Row:
    cells = tuple(CellText(kind=cell.kind, source=cell.source) for cell in notebook.cells)
    num_markdown = sum(cell.kind == "markdown" for cell in cells)
    return Row(
        repo=raw_file.location.repo,
        path=raw_file.location.path,
        commit=commit,
        blob_sha=blob_sha,
        licence=repository.licence,
        licence_source=repository.licence_source,
        fork_of=repository.fork_of,
        retrieved=repository.retrieved,
        nbformat=notebook.nbformat,
        language=_well_formed(notebook.language),
        kernel=_well_formed(notebook.kernel),
        cells=cells,
        num_code=sum(cell.kind == "code" for cell in cells),
        num_markdown=num_markdown,
        markdown_fraction=num_markdown / len(cells) if cells else 0.0,
        markdown_focused=False,
        num_tokens_estimate=estimate_num_tokens(cells),
        content_hash=content_hash(cells),
        is_substantial=is_substantial(cell.source for cell in cells),
        is_old_version=raw_file.location.old_commit is not None,
    )


def _well_formed(text: str | None) -> str | None:
    """Replace lone surrogates, which no UTF-8 file can hold."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")
