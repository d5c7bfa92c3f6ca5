"""Opt-out lists: whose notebooks shall not be in a corpus.

A list is JSON lines; each has at least one of ``repo`` (``owner/name``, or the one name by which a
folder goes), ``owner`` and ``content_sha256`` (a row's ``content_hash``), and may have a ``note``
(say, the number of the request), which goes to ``removed/``. Names are compared without regard to
case, as GitHub does.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jupyt5.errors import CorpusError, UsageError
from jupyt5_corpus.filters import removal_of
from jupyt5_corpus.list_entries import parse_entry, read_names
from jupyt5_corpus.row import Removal, Row

__all__ = ["STEP", "OptOut", "find_reason", "judge", "load", "owner_of"]

STEP = "opt_out"
_FIELDS = ("repo", "owner", "content_sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptOut:
    """What a list names, in lower case, each with the place in the list and its note.

    Attributes:
        name: The list's file name.
        sha256: Of its bytes.
    """

    name: str
    sha256: str
    repos: Mapping[str, str]
    owners: Mapping[str, str]
    contents: Mapping[str, str]

    def record(self) -> dict[str, object]:
        """Return what the manifest says of the list."""
        return {
            "list": self.name,
            "sha256": self.sha256,
            "repos": len(self.repos),
            "owners": len(self.owners),
            "contents": len(self.contents),
        }


def load(path: Path) -> OptOut:
    """Read a list.

    Raises:
        UsageError: If the file cannot be read.
        CorpusError: If a line is malformed; names file and line.
    """
    try:
        data = path.read_bytes()
    except OSError as exc:
        message = f"Opt-out list {path} cannot be read: {exc.strerror}. Check the path."
        raise UsageError(message) from exc
    tables: dict[str, dict[str, str]] = {field: {} for field in _FIELDS}
    for line_number, line in enumerate(data.splitlines(), start=1):
        if line.strip():
            where = f"{path.name}:{line_number}"
            for field, value, detail in _read_line(line, where):
                tables[field].setdefault(value, detail)
    return OptOut(
        name=path.name,
        sha256=hashlib.sha256(data).hexdigest(),
        repos=tables["repo"],
        owners=tables["owner"],
        contents=tables["content_sha256"],
    )


def judge(row: Row, opt_out: OptOut) -> Row | Removal:
    """Remove a notebook that the list names."""
    found = find_reason(row.repo, row.content_hash, opt_out)
    if found is None:
        return row
    reason, detail = found
    return removal_of(row, step=STEP, reason=reason, detail=detail)


def find_reason(repo: str, content_hash: str, opt_out: OptOut) -> tuple[str, str] | None:
    """Return reason and detail if the list names the repository, its owner or the content."""
    repo = repo.lower()
    for reason, table, value in (
        ("opted_out_repo", opt_out.repos, repo),
        ("opted_out_owner", opt_out.owners, owner_of(repo)),
        ("opted_out_content", opt_out.contents, content_hash),
    ):
        if value in table:
            return reason, table[value]
    return None


def owner_of(repo: str) -> str:
    """Return the owner of ``owner/name``."""
    return repo.partition("/")[0]


def _read_line(line: bytes, where: str) -> Iterator[tuple[str, str, str]]:
    fail = partial(_bad_line, where)
    entry = parse_entry(line, fail)
    note = entry.get("note")
    if not isinstance(note, str | None):
        raise fail(f"note is {note!r}, no text")
    for field, value in read_names(entry, _FIELDS, fail):
        yield field, value, f"{where}: {note}" if note else where


def _bad_line(where: str, reason: str) -> CorpusError:
    return CorpusError(
        f"Opt-out list {where} cannot be used: {reason}. Each line is a JSON object with at least "
        "one of repo (owner/name, or a folder's name), owner, content_sha256."
    )
