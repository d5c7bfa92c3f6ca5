"""Which files beside a notebook it needs: those it opened, and those its cells name."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from jupyt5.notebook import Cell
from jupyt5_dsp.curation.names import parse_cell
from jupyt5_dsp.curation.sources import iter_files

__all__ = ["DataFiles", "choose_files", "list_data_files"]

_IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)|<img[^>]+src=[\"']([^\"']+)", re.IGNORECASE)
_LISTING = re.compile(r"listdir|scandir|\bglob|iterdir|\bwalk\b|[!%]\s*(?:ls|dir|cat|head)\b")
_MAX_NAME_LENGTH = 400


@dataclass(frozen=True, slots=True)
class DataFiles:
    """All files of a repository that notebooks may read, relative to it."""

    paths: frozenset[PurePosixPath]
    by_name: Mapping[str, tuple[PurePosixPath, ...]]


def list_data_files(root_path: Path, outside: Sequence[Path] = ()) -> DataFiles:
    """List what may be copied: no notebooks, no hidden files, no links."""
    paths = [path for path in iter_files(root_path, outside) if path.suffix.lower() != ".ipynb"]
    by_name: dict[str, list[PurePosixPath]] = {}
    for path in paths:
        by_name.setdefault(path.name, []).append(path)
    return DataFiles(frozenset(paths), {name: tuple(found) for name, found in by_name.items()})


def choose_files(
    files: DataFiles,
    notebook_path: PurePosixPath,
    cells: Sequence[Cell],
    opened: Iterable[str] = (),
) -> tuple[PurePosixPath, ...]:
    """Return the files that a notebook needs, sorted.

    Args:
        files: What there is in its repository.
        notebook_path: The notebook, relative to the repository.
        cells: Its cells; files that they name are taken, also local modules and what these import.
        opened: What it opened when it ran: paths relative to the repository. A folder that it
            listed stands for the files in it; its own folder only if its code lists something,
            because Python lists that at every import.
    """
    folder = notebook_path.parent
    lists_own = any(_LISTING.search(cell.source) for cell in cells if cell.kind == "code")
    seen = {PurePosixPath(name) for name in opened}
    chosen = {path for one in seen if one != folder or lists_own for path in _expand(files, one)}
    for cell in cells:
        if cell.kind == "code":
            chosen.update(_named_in_code(files, folder, cell.source))
        else:
            names = (one or other for one, other in _IMAGE.findall(cell.source))
            chosen.update(path for name in names for path in _resolve(files, folder, name))
    return tuple(sorted(chosen))


def _expand(files: DataFiles, path: PurePosixPath) -> Iterator[PurePosixPath]:
    if path in files.paths:
        yield path
    elif path.suffix == ".pyc" and path.parent.name == "__pycache__":
        yield from _expand(files, path.parent.parent / f"{path.name.partition('.')[0]}.py")
    else:
        yield from (one for one in files.paths if one.parent == path)


def _named_in_code(files: DataFiles, folder: PurePosixPath, source: str) -> Iterator[PurePosixPath]:
    tree = parse_cell(source)
    if tree is None:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _resolve(files, folder, node.value)
            # Shell escapes and magics become calls with the whole line as one text.
            if " " in node.value and len(node.value) < _MAX_NAME_LENGTH:
                for word in node.value.split():
                    yield from _resolve(files, folder, word.strip("'\""))
    yield from _local_modules(files, folder, tree)


def _resolve(files: DataFiles, folder: PurePosixPath, name: str) -> Iterator[PurePosixPath]:
    """Yield the file that a text names: from the notebook's folder, or by a unique file name."""
    if not name or len(name) > _MAX_NAME_LENGTH or "\n" in name:
        return
    path = _normalise(folder / name)
    if path in files.paths:
        yield path
        return
    base = PurePosixPath(name).name
    same = files.by_name.get(base, ()) if "." in base else ()
    if len(same) == 1:
        yield same[0]


def _normalise(path: PurePosixPath) -> PurePosixPath | None:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part != ".":
            parts.append(part)
    return PurePosixPath(*parts)


def _local_modules(
    files: DataFiles, folder: PurePosixPath, tree: ast.Module
) -> Iterator[PurePosixPath]:
    """Yield modules of the repository that the code imports from beside the notebook."""
    for name in _imported(tree):
        head = folder.joinpath(*name.split(".")[:1])
        module = head.with_name(f"{head.name}.py")
        if module in files.paths:
            yield module
        elif head / "__init__.py" in files.paths or any(head in one.parents for one in files.paths):
            yield from (one for one in files.paths if head in one.parents and one.suffix == ".py")


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
