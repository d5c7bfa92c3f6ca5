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
# Names of languages and kernels; longer ones name nothing.
_MAX_NAME_CHARS = 100


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
            detail = str(exc).removesuffix(exc.advice).rstrip()
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
        language=_as_name(notebook.language),
        kernel=_as_name(notebook.kernel),
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


def _as_name(text: str | None) -> str | None:
    """Return a name as it can be stored: lone surrogates become U+FFFD, as they do in sources."""
    if text is None or len(text) > _MAX_NAME_CHARS:
        return None
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
