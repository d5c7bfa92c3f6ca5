"""Cutting sources into units, the pieces that workers take."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyt5.errors import CorpusError, UsageError
from jupyt5.files import sha256_file
from jupyt5_corpus.sources.archives import ARCHIVE_SUFFIXES, files_of_archive
from jupyt5_corpus.sources.folders import FolderReader, children, is_bare
from jupyt5_corpus.sources.parquet import PARQUET_SUFFIX, files_of_table
from jupyt5_corpus.sources.records import NOTEBOOK_SUFFIX, LicenceFile, RawFile, readable

__all__ = ["Unit", "find_units", "iter_files"]

_NOTEBOOKS_A_UNIT = 2_000
# How much a bare repository counts for without a look inside: 4.6 notebooks is the paper's mean.
_NOTEBOOKS_A_BARE = 5
# Small archives are read together: at 3 to 20 kB a packed notebook, up to about 1,000 of them.
_ARCHIVE_BYTES_A_UNIT = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A piece of the input.

    Attributes:
        path: An archive, a Parquet file, or a folder.
        metadata_folder: Where ``repos.jsonl`` and ``files.jsonl.zst`` may lie.
        names: What of the folder belongs to the unit: archives, subfolders, bare repositories,
            files. Not how notebooks are called: a folder of a million needs few names.
        num_bytes: Size of the archives; 0 for others.
    """

    path: Path
    metadata_folder: Path
    names: tuple[str, ...] = ()
    num_bytes: int = 0

    @property
    def label(self) -> str:
        """What the manifest calls the unit: never more of its path than the last part."""
        return readable(self.path.name)

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything read from this unit, or of why it cannot be read."""
        if not self.names:
            return _hash_file(self.path)
        digest = hashlib.sha256()
        reader = FolderReader(self.path)
        for name in self.names:
            digest.update(f"{name}\0".encode("utf-8", "surrogateescape"))
            if _is_container(name) and (self.path / name).is_file():
                digest.update(_hash_file(self.path / name).encode())
                continue
            for file in reader.files(name):
                for part in _parts_of_file(file):
                    digest.update(part)
        return digest.hexdigest()


def find_units(sources: Sequence[Path]) -> tuple[Unit, ...]:
    """Cut the sources into units: sources in the order given, files within one by name.

    Nothing is opened but folders.

    Raises:
        UsageError: If a source is missing or of no known kind.
        CorpusError: If a folder holds nothing to read.
        OSError: If a source cannot be read.
    """
    units: list[Unit] = []
    for source in sources:
        if source.is_dir():
            units.extend(_units_of_folder(source))
        elif not source.exists():
            message = f"Source {source} does not exist. Check the path."
            raise UsageError(message)
        elif _is_container(source.name):
            num_bytes = source.stat().st_size
            units.append(Unit(path=source, metadata_folder=source.parent, num_bytes=num_bytes))
        else:
            message = (
                f"Source {source} is neither a folder nor a .tar, .tar.zst or .parquet file. "
                "Give a folder of notebooks, clones or shards, a bare repository, or such a file."
            )
            raise UsageError(message)
    return tuple(units)


def iter_files(unit: Unit) -> Iterator[RawFile | LicenceFile]:
    """Read a unit's notebooks, and the licence files of its repositories, one after the other.

    Whatever cannot be read, up to a whole archive or repository, is a ``RawFile`` with a problem.
    """
    if not unit.names:
        yield from _files_of_container(unit.path)
    reader = FolderReader(unit.path)
    for name in unit.names:
        if _is_container(name) and (unit.path / name).is_file():
            yield from _files_of_container(unit.path / name)
        else:
            yield from reader.files(name)


def _files_of_container(path: Path) -> Iterator[RawFile | LicenceFile]:
    is_table = path.name.endswith(PARQUET_SUFFIX)
    return files_of_table(path) if is_table else files_of_archive(path)


def _is_container(name: str) -> bool:
    return name.endswith((*ARCHIVE_SUFFIXES, PARQUET_SUFFIX))


def _units_of_folder(folder: Path) -> Iterator[Unit]:
    if is_bare(folder):
        yield Unit(path=folder, metadata_folder=folder, names=(".",))
        return
    # In a clone, archives and tables are its own data, not ours.
    is_clone = (folder / ".git").exists()
    containers = () if is_clone else sorted(filter(_is_container_file, folder.iterdir()))
    parts, _ = _parts(folder, "", depth=0)
    if not containers and not parts:
        message = (
            f"Source {folder} holds no notebooks (*.ipynb), no archives (*.tar, *.tar.zst), no "
            "bare repositories and no *.parquet. Check the path."
        )
        raise CorpusError(message)
    weighted = ((path.name, path.stat().st_size) for path in containers)
    for names, num_bytes in _pack(weighted, _ARCHIVE_BYTES_A_UNIT):
        if len(names) == 1:
            yield Unit(path=folder / names[0], metadata_folder=folder, num_bytes=num_bytes)
        else:
            yield Unit(path=folder, metadata_folder=folder, names=names, num_bytes=num_bytes)
    for names, _ in _pack(parts, _NOTEBOOKS_A_UNIT):
        yield Unit(path=folder, metadata_folder=folder, names=names)


def _is_container_file(path: Path) -> bool:
    return _is_container(path.name) and path.is_file()


def _parts(source: Path, folder: str, *, depth: int) -> tuple[list[tuple[str, int]], int]:
    """Name the pieces of a folder, each with its number of notebooks, and add these up.

    A subfolder stays one piece as long as it has few enough notebooks for one unit.
    """
    try:
        entries = children(source, folder, depth=depth)
    except OSError:
        return [(folder, 1)] if folder else [(".", 1)], 1
    parts: list[tuple[str, int]] = []
    for child in entries:
        if not child.is_folder:
            parts.append((child.name, int(child.name.endswith(NOTEBOOK_SUFFIX))))
        elif is_bare(source / child.name):
            parts.append((child.name, _NOTEBOOKS_A_BARE))
        else:
            parts += _parts(source, child.name, depth=depth + 1)[0]
    total = sum(number for _, number in parts)
    if not total:
        return [], 0
    if folder and total <= _NOTEBOOKS_A_UNIT:
        return [(folder, total)], total
    return parts, total


def _pack(parts: Iterable[tuple[str, int]], limit: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Put neighbours together as long as their sizes add up to no more than ``limit``."""
    names: list[str] = []
    total = 0
    for name, size in parts:
        if names and total + size > limit:
            yield tuple(names), total
            names, total = [], 0
        names.append(name)
        total += size
    if names:
        yield tuple(names), total


def _parts_of_file(file: RawFile | LicenceFile) -> Iterator[bytes]:
    if isinstance(file, LicenceFile):
        texts, data = [file.repo, file.name, file.text], b""
    else:
        texts = [file.name, file.location.repo, str(file.repository), *(file.problem or ())]
        data = file.data or b""
    yield "\0".join(texts).encode("utf-8", "replace")
    yield b"%d" % len(data)
    yield data


def _hash_file(path: Path) -> str:
    try:
        return sha256_file(path)
    except OSError as exc:
        return hashlib.sha256(f"unreadable: {exc.strerror}".encode()).hexdigest()
