"""``jupyt5-train prepare --python-sources``: functions of Python files become token arrays.

The ``pymt5`` stage (https://arxiv.org/abs/2010.03150) learns to infill one part of a function from
its other parts. A function is a document of up to three cells, in this order: its signature, its
docstring where it has one, its body. Their control codes are ``<signature>``, ``<docstring>`` and
``<code>``; cell infilling does the rest.
"""

import ast
import hashlib
import importlib.util
import inspect
import io
import logging
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from jupyt5.errors import TrainingError
from jupyt5_training.prepare import Document, PrepareConfig, iter_rows, write_data

__all__ = ["FunctionParts", "find_functions", "prepare_python"]

logger = logging.getLogger(__name__)

# Columns of The Stack and its like, and of CodeParrot.
_REPO_COLUMNS = ("repo_name", "max_stars_repo_name", "repository_name")
_CONTENT_COLUMN = "content"
# Longer files are data or generated (CodeParrot's and The Stack's limit).
_MAX_FILE_BYTES = 1 << 20
_VALIDATION_SHARE = 0.02
_FEW_GROUPS = 50


@dataclass(frozen=True, slots=True)
class FunctionParts:
    """A function's signature up to its colon, docstring (or ""), and body, each without indent."""

    signature: str
    docstring: str
    body: str


@dataclass(frozen=True, slots=True)
class _File:
    """A source file's text and what decides its split."""

    group: str
    content: bytes


def prepare_python(
    sources: Path, out: Path, config: PrepareConfig, *, tokenizer_path: Path | None = None
) -> dict[str, object]:
    """Write token arrays of the functions in Python files; the folder appears only when complete.

    About 2 in 100 repositories are held out for validation: the column ``repo_name`` of Parquet,
    the first folders below ``sources``, or single files where there are fewer than 50 of those.

    Args:
        sources: Folder of ``.py`` files, or of Parquet files with a column ``content``.
        out: New folder.
        config: Vocabulary, copies, sample; language and Markdown focus have no meaning here.
        tokenizer_path: Use this tokenizer, as the stage that follows must; default: train one.

    Returns:
        The content of ``data.json``.

    Raises:
        TrainingError: If there are no Python files or no functions in them.
        FileExistsError: If ``out`` is not empty.
    """
    paths = _find_files(sources)
    by_file = len({path.relative_to(sources).parts[0] for path in paths}) < _FEW_GROUPS
    return write_data(
        lambda: _iter_documents(paths, sources, by_file=by_file),
        out,
        config,
        tokenizer_path=tokenizer_path,
        manifest_sha256=lambda: _hash_files(paths, sources),
    )


def find_functions(source: str) -> Iterator[FunctionParts]:
    """Yield the functions and methods of a module in order; those inside functions are body.

    One-line functions and stubs (``pass``, ``...``, docstring only) are left out.

    Raises:
        SyntaxError: If it is not Python 3.
        ValueError: If it holds null bytes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of strange escapes in other people's strings
        tree = ast.parse(source)
    lines = source.split("\n")
    for node in _walk_definitions(tree):
        parts = _split_function(node, lines)
        if parts is not None:
            yield parts


def _walk_definitions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        elif isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _walk_definitions(child)


def _split_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef, lines: Sequence[str]
) -> FunctionParts | None:
    header = lines[node.lineno - 1 : node.body[0].lineno]
    colon_line, colon_end = _find_colon(header)
    first_body_line = node.lineno + colon_line + 1
    if node.body[0].lineno < first_body_line:
        return None
    docstring = ast.get_docstring(node, clean=False)
    statements = node.body
    if docstring is not None:
        first_body_line = (node.body[0].end_lineno or 0) + 1
        statements = node.body[1:]
    if all(_is_stub(statement) for statement in statements):
        return None
    if statements[0].lineno < first_body_line:  # after a semicolon
        return None
    signature = [*header[:colon_line], header[colon_line][:colon_end]]
    parts = FunctionParts(
        _dedent(signature, lines[node.lineno - 1][: node.col_offset]),
        inspect.cleandoc(docstring or "").strip(),
        _dedent(
            lines[first_body_line - 1 : node.end_lineno],
            lines[statements[0].lineno - 1][: statements[0].col_offset],
        ).strip("\n"),
    )
    return parts if _is_text(parts.docstring) else None


def _find_colon(header: Sequence[str]) -> tuple[int, int]:
    """Return line index and column after the colon that ends a signature."""
    depth = 0
    reader = io.StringIO("\n".join(header) + "\n").readline
    for token in tokenize.generate_tokens(reader):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            if token.string == ":" and depth == 0:
                return token.end[0] - 1, token.end[1]
    message = "a function has no colon"
    raise SyntaxError(message)


def _is_stub(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _dedent(lines: Sequence[str], indent: str) -> str:
    """Take an indent off; what is inside a string may have less of it and stays."""
    return "\n".join(line.removeprefix(indent) for line in lines)


def _is_text(text: str) -> bool:
    """Whether a text has no lone surrogates, which an escape can put into a docstring."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _find_files(sources: Path) -> tuple[Path, ...]:
    for pattern in ("*.parquet", "*.py"):
        paths = tuple(sorted(path for path in sources.rglob(pattern) if path.is_file()))
        if paths:
            return paths
    message = (
        f"{sources} holds no .py and no .parquet file. "
        "Give a folder of Python files, or of Parquet files with a column 'content'."
    )
    raise TrainingError(message)


def _iter_documents(paths: Sequence[Path], sources: Path, *, by_file: bool) -> Iterator[Document]:
    num_files, num_unread = 0, 0
    for file in _iter_files(paths, sources, by_file=by_file):
        num_files += 1
        try:
            functions = list(find_functions(importlib.util.decode_source(file.content)))
        # Python 2, other encodings, null bytes, nesting without end.
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            num_unread += 1
            continue
        split = _choose_split(file.group)
        for parts in functions:
            cells = [("signature", parts.signature), ("code", parts.body)]
            if parts.docstring:
                cells.insert(1, ("docstring", parts.docstring))
            kinds, texts = zip(*cells, strict=True)
            yield Document(split, kinds, texts)
    if num_unread:
        logger.info("%d of %d files are not Python 3 and were left out", num_unread, num_files)


def _iter_files(paths: Sequence[Path], sources: Path, *, by_file: bool) -> Iterator[_File]:
    for path in paths:
        name = path.relative_to(sources)
        if path.suffix == ".parquet":
            yield from _read_parquet(path)
        elif path.stat().st_size <= _MAX_FILE_BYTES:
            yield _File(str(name) if by_file else name.parts[0], path.read_bytes())


def _read_parquet(path: Path) -> Iterator[_File]:
    repo = next((name for name in _REPO_COLUMNS if name in _list_columns(path)), None)
    for row in iter_rows(path, [_CONTENT_COLUMN, *([repo] if repo else [])]):
        content = str(row[_CONTENT_COLUMN] or "")
        if len(content) <= _MAX_FILE_BYTES:
            group = str(row[repo]) if repo else content
            yield _File(group, content.encode("utf-8", "replace"))


def _list_columns(path: Path) -> list[str]:
    try:
        return pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return []  # reading its rows will say why


def _choose_split(group: str) -> str:
    number = int.from_bytes(hashlib.sha256(group.encode("utf-8", "replace")).digest()[:4], "big")
    return "validation" if number < _VALIDATION_SHARE * 2**32 else "train"


def _hash_files(paths: Sequence[Path], sources: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(sources)}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()
