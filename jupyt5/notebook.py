"""The one notebook reader: any nbformat from 2 to 4.5, as plain frozen data.

Notebooks are parsed as JSON directly; nothing is validated that is not needed, so that odd but
readable files are read. A cell's source is changed by replacing just its bytes in the file.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Literal, cast

import orjson

from jupyt5.errors import NotebookError
from jupyt5.files import write_atomic

__all__ = ["Cell", "CellKind", "CellRole", "Notebook", "read_notebook", "write_cell_source"]

CellKind = Literal["code", "markdown", "raw"]
CellRole = Literal["context", "solution", "grading"]

_OLDEST_NBFORMAT = 2
_WRITABLE_NBFORMAT = 4
_LANGUAGE_OF_KERNEL = {"ir": "r", "xpython": "python"}
_KIND_OF_TYPE: Mapping[object, CellKind] = {
    "code": "code",
    "markdown": "markdown",
    "heading": "markdown",
}
_MAX_HEADING_LEVEL = 6
_MAX_SHOWN_CHARS = 40
_RESTORE = "Restore it from a backup or mend it."


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell, without its outputs.

    ``id`` is None before nbformat 4.5. ``role`` comes from nbgrader metadata (any schema) or a
    ``task_id``: ``solution`` where the student writes, ``grading`` where a test stands.
    """

    id: str | None
    kind: CellKind
    source: str
    metadata: Mapping[str, object] = field(default_factory=dict[str, object], hash=False)
    role: CellRole | None = None


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook's cells in order, with the language and kernel its metadata name."""

    cells: tuple[Cell, ...]
    nbformat: int
    nbformat_minor: int
    metadata: Mapping[str, object] = field(default_factory=dict[str, object], hash=False)
    language: str | None = None
    kernel: str | None = None


def read_notebook(path_or_bytes: str | Path | bytes, *, name: str | None = None) -> Notebook:
    """Read a notebook file, or the bytes of one.

    Args:
        path_or_bytes: A path, or the file's content.
        name: What to call it in messages; default is the path.

    Raises:
        NotebookError: If it cannot be read or is not a notebook; names the file and the reason.
    """
    label = name or ("notebook" if isinstance(path_or_bytes, bytes) else str(path_or_bytes))
    document = _parse(_load(path_or_bytes, label), label)
    nbformat = _find_nbformat(document)
    if nbformat < _OLDEST_NBFORMAT:
        message = (
            f"{label} is not a notebook that can be read: nbformat is "
            f"{_shorten(document.get('nbformat', 'missing'))}."
        )
        raise NotebookError(message, "Open and save it in a current Jupyter.")
    cells = document.get("cells")
    has_cells = isinstance(cells, list) or isinstance(document.get("worksheets"), list)
    if not has_cells and cells is not None:
        message = (
            f"{label} is not a notebook: its cells are {_shorten(document['cells'])}, not a list."
        )
        raise NotebookError(message, _RESTORE)
    metadata = _as_mapping(document.get("metadata"))
    raw_cells = _list_raw_cells(document)
    return Notebook(
        cells=tuple([_read_cell(raw_cell) for raw_cell in raw_cells]),
        nbformat=nbformat,
        nbformat_minor=_as_int(document.get("nbformat_minor"), 0),
        metadata=metadata,
        language=_find_language(metadata, raw_cells),
        kernel=_as_text(_as_mapping(metadata.get("kernelspec")).get("name")),
    )


def write_cell_source(path: str | Path, cell_idx: int, source: str) -> None:
    """Replace one cell's source in a notebook file; every other byte stays as it is.

    Args:
        path: Notebook of nbformat 4 or later.
        cell_idx: Index of the cell, from 0.
        source: The new source; lone surrogates in it become U+FFFD.

    Raises:
        NotebookError: If the file is older than nbformat 4, damaged, or has no such cell.
        OSError: If it cannot be written; the file is then as it was.
    """
    notebook_path = Path(path)
    label = str(path)
    raw = _load(notebook_path, label)
    notebook = read_notebook(raw, name=label)
    if notebook.nbformat < _WRITABLE_NBFORMAT:
        message = (
            f"{label} has nbformat {notebook.nbformat} and is not written to. "
            f"Upgrade it first: jupyter nbconvert --to notebook --inplace {label}"
        )
        raise NotebookError(message)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        message = f"{label} is not UTF-8 and is not written to. Save it in Jupyter first."
        raise NotebookError(message) from exc
    start, end = _find_source_span(text, cell_idx, label)
    replacement = _render_source(text, start, end, _mend(source))
    write_atomic(notebook_path, (text[:start] + replacement + text[end:]).encode("utf-8"))


# --- reading --------------------------------------------------------------------------------


def _load(path_or_bytes: str | Path | bytes, label: str) -> bytes:
    if isinstance(path_or_bytes, bytes):
        return path_or_bytes
    try:
        return Path(path_or_bytes).read_bytes()
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or str(exc)
        message = f"{label} cannot be read: {reason}. Check the path."
        raise NotebookError(message) from exc


def _parse(raw: bytes, label: str) -> Mapping[str, object]:
    try:
        document: object = orjson.loads(raw)
    except orjson.JSONDecodeError:
        document = _parse_slowly(raw, label)
    if not isinstance(document, dict):
        message = f"{label} is not a notebook: its top level is not a JSON object."
        raise NotebookError(message)
    return cast("dict[str, object]", document)


def _parse_slowly(raw: bytes, label: str) -> object:
    """Parse what the strict parser refuses: a BOM, UTF-16, NaN, lone surrogates."""
    try:
        encoding = json.detect_encoding(raw) if raw else "utf-8"
        document: object = json.loads(raw.decode(encoding))
    except (ValueError, RecursionError) as exc:
        if isinstance(exc, json.JSONDecodeError):
            reason = f"{exc.msg} at line {exc.lineno}, column {exc.colno}"
        else:
            reason = "nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        message = f"{label} is not valid JSON: {reason}."
        raise NotebookError(message, _RESTORE) from exc
    return document


def _find_nbformat(document: Mapping[str, object]) -> int:
    """Return nbformat, or 0 where nothing can be made of it."""
    stated = document.get("nbformat")
    if isinstance(stated, int) and not isinstance(stated, bool):
        return stated
    # "4", 4.0 or nothing stands in files that open everywhere; true, NaN or a list does not.
    is_plausible = isinstance(stated, str | None) or (
        isinstance(stated, float) and math.isfinite(stated)
    )
    return 4 if is_plausible and "cells" in document else 0


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"


def _list_raw_cells(document: Mapping[str, object]) -> list[Mapping[str, object]]:
    holders = [document]
    if not isinstance(document.get("cells"), list):
        holders = [_as_mapping(sheet) for sheet in _as_sequence(document.get("worksheets"))]
    found: list[Mapping[str, object]] = []
    for holder in holders:
        cells = _as_sequence(holder.get("cells"))
        found += cast("Iterator[Mapping[str, object]]", (c for c in cells if isinstance(c, dict)))
    return found


def _read_cell(raw_cell: Mapping[str, object]) -> Cell:
    get = raw_cell.get
    # nbformat 2 and 3 keep code in "input" and text in "source".
    source = get("source")
    if source is None:
        source = get("input")
    text = source if isinstance(source, str) else _join_lines(_as_sequence(source))
    if not text.isascii():
        text = _mend(text)
    cell_type, metadata = get("cell_type"), get("metadata")
    kind = _KIND_OF_TYPE.get(cell_type, "raw") if isinstance(cell_type, str) else "raw"
    if cell_type == "heading":
        level = min(max(_as_int(get("level"), 1), 1), _MAX_HEADING_LEVEL)
        text = f"{'#' * level} {text}"
    if not metadata:
        return _make_cell(_as_text(get("id")), kind, text, {}, None)
    known = _as_mapping(metadata)
    return _make_cell(_as_text(get("id")), kind, text, known, _find_role(known))


# The __init__ that a frozen dataclass gets takes twice as long, and a corpus has 10^8 cells.
_set_id, _set_kind, _set_source, _set_metadata, _set_role = (
    getattr(Cell, name).__set__ for name in ("id", "kind", "source", "metadata", "role")
)


def _make_cell(
    cell_id: str | None,
    kind: CellKind,
    source: str,
    metadata: Mapping[str, object],
    role: CellRole | None,
) -> Cell:
    cell = object.__new__(Cell)
    _set_id(cell, cell_id)
    _set_kind(cell, kind)
    _set_source(cell, source)
    _set_metadata(cell, metadata)
    _set_role(cell, role)
    return cell


def _join_lines(lines: Sequence[object]) -> str:
    try:
        return "".join(cast("Sequence[str]", lines))
    except TypeError:
        return "".join(line for line in lines if isinstance(line, str))


def _mend(text: str) -> str:
    """Replace lone surrogates: they are no characters, and nothing could encode them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _find_role(metadata: Mapping[str, object]) -> CellRole | None:
    nbgrader = _as_mapping(metadata.get("nbgrader"))
    if nbgrader.get("solution") is True or "task_id" in metadata:
        return "solution"
    return "grading" if nbgrader.get("grade") is True else None


def _find_language(
    metadata: Mapping[str, object], raw_cells: Sequence[Mapping[str, object]]
) -> str | None:
    kernelspec = _as_mapping(metadata.get("kernelspec"))
    name = _as_text(_as_mapping(metadata.get("language_info")).get("name"))
    name = name or _as_text(kernelspec.get("language"))
    if name:
        return name.lower()
    kernel = (_as_text(kernelspec.get("name")) or "").lower()
    if kernel in _LANGUAGE_OF_KERNEL:
        return _LANGUAGE_OF_KERNEL[kernel]
    if kernel.startswith("python"):
        return "python"
    of_cells = (_as_text(raw_cell.get("language")) for raw_cell in raw_cells)
    return next((language.lower() for language in of_cells if language), None)


def _as_mapping(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _as_sequence(value: object) -> Sequence[object]:
    # No cast: this is called for every cell of a corpus.
    return value if isinstance(value, list) else ()  # pyright: ignore[reportUnknownVariableType]


def _as_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _as_int(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


# --- writing --------------------------------------------------------------------------------

_decoder = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


def _find_source_span(text: str, cell_idx: int, label: str) -> tuple[int, int]:
    start = 1 if text.startswith("\ufeff") else 0
    members = dict(_iter_members(text, _skip_space(text, start)))
    list_start = members["cells"][0] if "cells" in members else 0
    cell_spans = list(_iter_items(text, list_start)) if text[list_start] == "[" else []
    if not 0 <= cell_idx < len(cell_spans):
        message = f"{label} has no cell {cell_idx}: it has {len(cell_spans)}, counted from 0."
        raise NotebookError(message)
    fields = dict(_iter_members(text, cell_spans[cell_idx][0]))
    if "source" not in fields:
        message = f"Cell {cell_idx} of {label} has no source field. Save it in Jupyter first."
        raise NotebookError(message)
    return fields["source"]


def _iter_members(text: str, position: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield (key, span of the value) of the JSON object that starts at ``position``."""
    position = _skip_space(text, position + 1)
    while text[position] == '"':
        key, position = cast("tuple[str, int]", scanstring(text, position + 1))
        start = _skip_space(text, _skip_space(text, position) + 1)
        end = _decoder.raw_decode(text, start)[1]
        yield key, (start, end)
        position = _skip_space(text, end)
        if text[position] == ",":
            position = _skip_space(text, position + 1)


def _iter_items(text: str, position: int) -> Iterator[tuple[int, int]]:
    """Yield the span of each item of the JSON array that starts at ``position``."""
    position = _skip_space(text, position + 1)
    while text[position] != "]":
        end = _decoder.raw_decode(text, position)[1]
        if text[position] == "{":
            yield position, end
        position = _skip_space(text, end)
        if text[position] == ",":
            position = _skip_space(text, position + 1)


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _render_source(text: str, start: int, end: int, source: str) -> str:
    """Write a source as the file has it: a string, or a list in the file's own indentation."""
    if text[start] == '"':
        return json.dumps(source, ensure_ascii=False)
    lines = [json.dumps(line, ensure_ascii=False) for line in source.splitlines(keepends=True)]
    before = text[text.rfind("\n", 0, start) + 1 : start]
    key_indent = before[: len(before) - len(before.lstrip(" \t"))]
    if not lines:
        return "[]"
    if "\n" not in text[:start] or not key_indent:
        return "[" + ", ".join(lines) + "]"
    first_indent = re.search(r"\n([ \t]+)", text)
    unit = first_indent.group(1) if first_indent else " "
    separator = ",\n" + key_indent + unit
    return f"[\n{key_indent}{unit}{separator.join(lines)}\n{key_indent}]"
