"""Opt-out lists: whose notebooks shall not be in a corpus.

A list is JSON lines; each has at least one of ``repo`` (``owner/name``, or the one name by which a
folder goes), ``owner`` and ``content_sha256`` (a row's ``content_hash``), and may have a ``note``
(say, the number of the request), which goes to ``removed/``. Names are compared without regard to
case, as GitHub does.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import orjson

from jupyt5.errors import CorpusError, UsageError
from jupyt5_corpus.filters import removal_of
from jupyt5_corpus.row import Removal, Row

__all__ = ["STEP", "OptOut", "find_reason", "judge", "load", "owner_of"]

STEP = "opt_out"
_FIELDS = ("repo", "owner", "content_sha256")
_HEX_DIGITS = frozenset("0123456789abcdef")


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
    try:
        parsed: object = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        raise _bad_line(where, f"not JSON ({exc})") from exc
    if not isinstance(parsed, dict):
        raise _bad_line(where, "not a JSON object")
    entry = cast("dict[str, object]", parsed)
    note = entry.get("note")
    if not isinstance(note, str | None):
        raise _bad_line(where, f"note is {note!r}, no text")
    present = [field for field in _FIELDS if entry.get(field) is not None]
    if not present:
        raise _bad_line(where, "none of repo, owner, content_sha256")
    for field in present:
        value = entry[field]
        if not isinstance(value, str) or not _is_valid(field, value.lower()):
            raise _bad_line(where, f"{field} is {value!r}")
        yield field, value.lower(), f"{where}: {note}" if note else where


def _is_valid(field: str, value: str) -> bool:
    if field == "repo":
        return all(value.split("/")) and value.count("/") <= 1
    if field == "owner":
        return bool(value) and "/" not in value
    return len(value) == 64 and _HEX_DIGITS.issuperset(value)


def _bad_line(where: str, reason: str) -> CorpusError:
    return CorpusError(
        f"Opt-out list {where} cannot be used: {reason}. Each line is a JSON object with at least "
        "one of repo (owner/name, or a folder's name), owner, content_sha256."
    )
