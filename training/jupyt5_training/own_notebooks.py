"""A person's own notebooks as training documents, some of them held out.

What has no place in a model of Python cells is left out and counted: outputs, raw and blank cells,
cells of other languages, huge ones. A notebook that cannot be read is named and passed over.
"""

import hashlib
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyt5.errors import NotebookError, TrainingError
from jupyt5.notebook import Cell, read_notebook
from jupyt5_training.prepare import Document

__all__ = ["OwnNotebooks", "read_own_notebooks"]

logger = logging.getLogger(__name__)

_MAX_FILE_BYTES = 100_000_000
_MAX_CELL_CHARS = 20_000  # longer ones hold data, not code
_LEAST_TIE_CHARS = 40  # shorter cells (a lone import) say nothing of where they come from
_VALIDATION_SHARE = 0.1  # of the cells
_PYTHON = re.compile(r"i?python[\d.]*", re.IGNORECASE)
_PYTHON_CELL_MAGICS = frozenset({"capture", "prun", "time", "timeit"})
_EMBEDDED = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,[A-Za-z0-9+/=]+")
_SKIPPED_FOLDERS = frozenset({"node_modules", "site-packages", "__pycache__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNotebooks:
    """What was found.

    Attributes:
        documents: Notebooks with cells to learn from, in the order of their paths.
        counts: ``notebooks``; ``damaged``, ``other_language`` and ``without_cells`` (notebooks);
            ``cells``; ``other_language_cells`` and ``huge_cells``.
        sha256: Of all documents and their split.
    """

    documents: tuple[Document, ...]
    counts: dict[str, int]
    sha256: str


def read_own_notebooks(folders: Sequence[Path]) -> OwnNotebooks:
    """Read all notebooks of some folders, and hold about a tenth of their cells out.

    Copies and versions of one notebook (half of the cells of one are in the other) stay together
    on one side. Which side that is depends on the path of the first of them.

    Args:
        folders: Folders, looked through to any depth, or notebook files.

    Raises:
        TrainingError: If there are no two different notebooks with two or more cells.
    """
    counts: Counter[str] = Counter()
    found: dict[str, tuple[Cell, ...]] = {}
    for path, name in _find_files(folders):
        cells = _read_cells(path, counts)
        if cells is None:
            continue
        if len(cells) > 1:
            found[name] = cells
        else:
            counts["without_cells"] += 1
    counts["notebooks"] = len(found)
    counts["cells"] = sum(map(len, found.values()))
    held_out = _choose_held_out(found, _group(found)) if found else frozenset[str]()
    if not held_out:
        raise TrainingError(_explain_too_few(folders, found, counts))
    documents = tuple(
        Document(
            "validation" if name in held_out else "train",
            tuple(cell.kind for cell in cells),
            tuple(cell.source for cell in cells),
        )
        for name, cells in found.items()
    )
    return OwnNotebooks(documents=documents, counts=dict(counts), sha256=_hash(documents))


def _find_files(folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield notebook files and their names, sorted; checkpoints and hidden folders left out."""
    files: dict[Path, str] = {}
    for folder in folders:
        if folder.is_file():
            files[folder.resolve()] = folder.name
        elif not folder.is_dir():
            message = f"There is no folder {folder}. Give the folder that your notebooks are in."
            raise TrainingError(message)
        for root, subfolders, names in os.walk(folder):
            subfolders[:] = sorted(
                name for name in subfolders if name[0] != "." and name not in _SKIPPED_FOLDERS
            )
            for name in names:
                path = Path(root) / name
                if path.suffix == ".ipynb" and name[0] != ".":
                    files.setdefault(path.resolve(), path.relative_to(folder).as_posix())
    num_so_called = Counter(files.values())
    for path, name in sorted(files.items(), key=lambda item: (item[1], str(item[0]))):
        yield path, name if num_so_called[name] == 1 else str(path)


def _read_cells(path: Path, counts: Counter[str]) -> tuple[Cell, ...] | None:
    """Return a notebook's cells that can be learnt from; None if all of it is left out."""
    try:
        if (size_bytes := path.stat().st_size) > _MAX_FILE_BYTES:
            raise NotebookError(f"{path} has {size_bytes >> 20} MiB, which no code has.")  # noqa: TRY301
        notebook = read_notebook(path)
    except (NotebookError, OSError) as exc:
        logger.warning("passed over: %s", exc)
        counts["damaged"] += 1
        return None
    if notebook.language and not _PYTHON.fullmatch(notebook.language):
        logger.info("passed over: %s is in %s", path, notebook.language)
        counts["other_language"] += 1
        return None
    kept = (_keep(cell, counts) for cell in notebook.cells)
    return (*(cell for cell in kept if cell),)


def _keep(cell: Cell, counts: Counter[str]) -> Cell | None:
    source = cell.source
    if cell.kind == "markdown":
        source = _EMBEDDED.sub("", source)
    if cell.kind == "raw" or not source.strip():
        return None
    if len(source) > _MAX_CELL_CHARS:
        counts["huge_cells"] += 1
        return None
    first_line = source.lstrip().partition("\n")[0]
    if cell.kind == "code" and first_line.startswith("%%"):
        magic = first_line[2:].split(maxsplit=1)[:1]
        if not magic or magic[0] not in _PYTHON_CELL_MAGICS:
            counts["other_language_cells"] += 1
            return None
    return Cell(None, cell.kind, source)


def _group(found: dict[str, tuple[Cell, ...]]) -> dict[str, str]:
    """Return for each notebook the first one that it is a copy or a version of."""
    heads: dict[str, str] = {}
    holders: dict[bytes, list[str]] = {}
    sizes: dict[str, int] = {}
    for name, cells in found.items():
        digests = {
            _digest(cell.source) for cell in cells if len(cell.source.strip()) >= _LEAST_TIE_CHARS
        }
        sizes[name] = len(digests)
        shared = Counter(other for digest in digests for other in holders.get(digest, ()))
        ties = (other for other, num in shared.items() if 2 * num >= min(sizes[name], sizes[other]))
        tied_heads = sorted({heads[other] for other in ties})
        heads[name] = tied_heads[0] if tied_heads else name
        for other, head in heads.items():
            if head in tied_heads[1:]:
                heads[other] = heads[name]
        for digest in digests:
            holders.setdefault(digest, []).append(name)
    return heads


def _choose_held_out(found: dict[str, tuple[Cell, ...]], heads: dict[str, str]) -> frozenset[str]:
    """Choose groups by their heads' hashes; none if there are not two groups."""
    sizes = Counter({name: 0 for name in heads.values()})
    for name, head in heads.items():
        sizes[head] += len(found[name])
    order = sorted(sizes, key=lambda head: hashlib.sha256(head.encode()).digest())
    wanted = _VALIDATION_SHARE * sizes.total()
    chosen: set[str] = set()
    for head in order:
        # A group with most of the cells is to learn from.
        if sum(sizes[each] for each in chosen) < wanted and 2 * sizes[head] <= sizes.total():
            chosen.add(head)
    if len(chosen) == len(order):  # two of the same size
        chosen.remove(order[-1])
    return frozenset(name for name, head in heads.items() if head in chosen)


def _explain_too_few(
    folders: Sequence[Path], found: dict[str, tuple[Cell, ...]], counts: Counter[str]
) -> str:
    left_out = [
        f"{counts[key]} {words}"
        for key, words in (
            ("damaged", "could not be read"),
            ("other_language", "are in another language than Python"),
            ("without_cells", "have no two cells"),
        )
        if counts[key]
    ]
    where = ", ".join(map(str, folders))
    what = f"{len(found)} notebooks to learn from" if found else "no notebook to learn from"
    kind = " that are not copies of each other" if len(found) > 1 else ""
    return (
        f"{where} holds {what}{' (' + ', '.join(left_out) + ')' if left_out else ''}. At least two"
        f"{kind} are needed: some to learn from, others to see whether it helped."
    )


def _hash(documents: Sequence[Document]) -> str:
    digest = hashlib.sha256()
    for document in documents:
        for part in (document.split, *document.kinds, *document.sources):
            digest.update(_digest(part))
        digest.update(b"\0")
    return digest.hexdigest()


def _digest(source: str) -> bytes:
    return hashlib.blake2b(source.encode("utf-8"), digest_size=12).digest()
