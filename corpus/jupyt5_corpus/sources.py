"""Where notebooks come from: shards and archives (``.tar``, ``.tar.zst``) and folders.

A source is cut into units, the pieces that workers take and that a restarted build skips when
done: one archive, or up to 2,000 notebooks of a folder. Members are called
``<owner>/<repo>/<path>`` or, for an older version, ``<owner>/<repo>@<commit>/<path>``; a shorter
name belongs to a repository called like its archive or folder. Archives are read as streams;
nothing is unpacked to disk.
"""

import hashlib
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyt5.errors import CorpusError, UsageError
from jupyt5.files import sha256_file
from jupyt5_corpus.compression import open_packed

__all__ = [
    "MAX_NOTEBOOK_BYTES",
    "Location",
    "RawFile",
    "Unit",
    "find_units",
    "iter_files",
    "locate",
]

MAX_NOTEBOOK_BYTES = 64 << 20
"""Larger files are not read into memory; they are removed with a reason."""

_SUFFIX = ".ipynb"
_ARCHIVE_SUFFIXES = (".tar", ".tar.zst")
_NOTEBOOKS_A_UNIT = 2_000
_OLD_VERSION = re.compile(r"(?P<repo>.+)@(?P<commit>[0-9a-f]{7,40})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A piece of the input: an archive, or some notebooks of a folder (``names``)."""

    path: Path
    metadata_folder: Path
    names: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What the manifest calls the unit: never more of its path than the last part."""
        return self.path.name

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything read from this unit."""
        if not self.names:
            return sha256_file(self.path)
        digest = hashlib.sha256()
        for name in self.names:
            digest.update(f"{name}\0".encode("utf-8", "surrogateescape"))
            file_path = self.path / name
            if file_path.is_file():
                digest.update(sha256_file(file_path).encode())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A notebook's place: repository, commit of an older version, path in the repository."""

    repo: str
    old_commit: str | None
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFile:
    """A notebook file as found; ``data`` is None where it cannot be read, ``problem`` says why."""

    name: str
    location: Location
    data: bytes | None
    problem: tuple[str, str] | None = None


def find_units(sources: Sequence[Path]) -> tuple[Unit, ...]:
    """Cut the sources into units: sources in the order given, files within one by name.

    Raises:
        UsageError: If a source is missing or is neither a folder nor an archive.
        CorpusError: If a folder holds neither archives nor notebooks.
    """
    units: list[Unit] = []
    for source in sources:
        if source.is_dir():
            units.extend(_units_of_folder(source))
        elif not source.exists():
            message = f"Source {source} does not exist. Check the path."
            raise UsageError(message)
        elif source.name.endswith(_ARCHIVE_SUFFIXES):
            units.append(Unit(path=source, metadata_folder=source.parent))
        else:
            message = (
                f"Source {source} is neither a folder nor a .tar or .tar.zst archive. "
                "Give a folder of notebooks, a folder of shards, or an archive."
            )
            raise UsageError(message)
    return tuple(units)


def iter_files(unit: Unit) -> Iterator[RawFile]:
    """Read a unit's notebook files one after the other.

    Raises:
        CorpusError: If an archive is damaged.
        OSError: If the archive cannot be read.
    """
    return _files_of_folder(unit) if unit.names else _files_of_archive(unit)


def locate(name: str, default_repo: str) -> Location:
    """Split ``<owner>/<repo>[@<commit>]/<path>``; a shorter name belongs to ``default_repo``."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if len(parts) < 3:
        return Location(repo=default_repo, old_commit=None, path="/".join(parts))
    repo, path = "/".join(parts[:2]), "/".join(parts[2:])
    match = _OLD_VERSION.fullmatch(repo)
    if match:
        return Location(repo=match["repo"], old_commit=match["commit"], path=path)
    return Location(repo=repo, old_commit=None, path=path)


def _units_of_folder(folder: Path) -> Iterator[Unit]:
    archives = sorted(path for path in folder.iterdir() if path.name.endswith(_ARCHIVE_SUFFIXES))
    names = sorted(_notebook_names(folder))
    if not archives and not names:
        message = (
            f"Source {folder} holds no notebooks (*.ipynb) and no archives (*.tar, *.tar.zst). "
            "Check the path."
        )
        raise CorpusError(message)
    for archive in archives:
        yield Unit(path=archive, metadata_folder=folder)
    for start in range(0, len(names), _NOTEBOOKS_A_UNIT):
        some_names = tuple(names[start : start + _NOTEBOOKS_A_UNIT])
        yield Unit(path=folder, metadata_folder=folder, names=some_names)


def _notebook_names(folder: Path) -> Iterator[str]:
    for parent, folder_names, file_names in os.walk(folder):
        if ".git" in folder_names:
            folder_names.remove(".git")
        for file_name in file_names:
            if file_name.endswith(_SUFFIX):
                yield Path(parent, file_name).relative_to(folder).as_posix()


def _files_of_folder(unit: Unit) -> Iterator[RawFile]:
    for name in unit.names:
        data, problem = _read_file(unit.path / name)
        readable_name = _readable(name)
        location = locate(readable_name, unit.path.resolve().name)
        yield RawFile(name=readable_name, location=location, data=data, problem=problem)


def _read_file(path: Path) -> tuple[bytes | None, tuple[str, str] | None]:
    try:
        num_bytes = path.stat().st_size
        if not path.is_file():
            return None, ("not_a_file", "neither a file nor a link to one")
        if num_bytes > MAX_NOTEBOOK_BYTES:
            return None, _too_large(num_bytes)
        return path.read_bytes(), None
    except OSError as exc:
        return None, ("unreadable_file", exc.strerror or str(exc))


def _files_of_archive(unit: Unit) -> Iterator[RawFile]:
    default_repo = unit.path.name.split(".tar")[0]
    with open_packed(unit.path) as stream:
        try:
            # Not closed by hand: a stream that failed cannot be read to its end.
            archive = tarfile.open(fileobj=stream, mode="r|", errors="surrogateescape")  # noqa: SIM115
            for member in archive:
                if not member.name.endswith(_SUFFIX):
                    continue
                name = _readable(member.name)
                data, problem = _read_member(archive, member)
                location = locate(name, default_repo)
                yield RawFile(name=name, location=location, data=data, problem=problem)
                # The list of members that tarfile keeps would grow with the archive.
                archive.members.clear()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        except tarfile.TarError as exc:
            message = (
                f"{unit.path} is damaged or no tar archive: {exc}. "
                "Fetch the file again or leave it out."
            )
            raise CorpusError(message) from exc


def _read_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo
) -> tuple[bytes | None, tuple[str, str] | None]:
    if not member.isreg():
        return None, ("not_a_file", "a link, folder or device in the archive")
    if member.size > MAX_NOTEBOOK_BYTES:
        return None, _too_large(member.size)
    stream = archive.extractfile(member)
    if stream is None:
        return None, ("not_a_file", "no data in the archive")
    return stream.read(), None


def _too_large(num_bytes: int) -> tuple[str, str]:
    return "too_large", f"{num_bytes} bytes, over {MAX_NOTEBOOK_BYTES}"


def _readable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
