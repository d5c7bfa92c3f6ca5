"""Tiny notebooks, archives and shard folders, and a short way to build a corpus from them."""

import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jupyt5_corpus.build import build_corpus
from jupyt5_corpus.compression import compress, open_packed
from jupyt5_corpus.engines import Engine, LocalEngine
from jupyt5_corpus.holdout_lists import HoldoutFile, bundled_file
from jupyt5_corpus.recipe import load_recipe
from jupyt5_corpus.row import CellText, Key, Row
from jupyt5_corpus.sources import units

SHARED = (Path(__file__).parents[2] / ".." / "shared" / "data").resolve()


class Make:
    """Makes test material."""

    @staticmethod
    def notebook(*sources: str | tuple[str, str]) -> bytes:
        """A notebook of nbformat 4.4; a bare string is a code cell, a pair is (kind, source)."""
        cells: list[dict[str, object]] = []
        for each in sources:
            kind, source = ("code", each) if isinstance(each, str) else each
            extra = {"outputs": [], "execution_count": None} if kind == "code" else {}
            cells.append({"cell_type": kind, "source": source, "metadata": {}, **extra})
        metadata = {"kernelspec": {"name": "python3", "language": "python"}}
        notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4}
        return json.dumps(notebook).encode()

    @staticmethod
    def tar(members: Mapping[str, bytes]) -> bytes:
        """An uncompressed archive of regular files."""
        sink = io.BytesIO()
        with tarfile.open(fileobj=sink, mode="w") as archive:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return sink.getvalue()

    @staticmethod
    def json_lines(*entries: Mapping[str, object]) -> bytes:
        return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)

    @staticmethod
    def cells(*sources: str | tuple[str, str]) -> tuple[CellText, ...]:
        pairs = [("code", each) if isinstance(each, str) else each for each in sources]
        return tuple(CellText(kind=kind, source=source) for kind, source in pairs)

    @staticmethod
    def row(**changes: object) -> Row:
        defaults: dict[str, object] = {
            "repo": "ann/book",
            "path": "one.ipynb",
            "commit": "a" * 40,
            "blob_sha": "b" * 40,
            "licence": "MIT",
            "licence_source": "repos.jsonl",
            "fork_of": None,
            "retrieved": None,
            "nbformat": 4,
            "language": "python",
            "kernel": "python3",
            "cells": (),
            "num_code": 0,
            "num_markdown": 0,
            "markdown_fraction": 0.0,
            "markdown_focused": False,
            "num_tokens_estimate": 0,
            "content_hash": "c" * 64,
            "is_substantial": True,
            "is_old_version": False,
        }
        return Row(**(defaults | changes))  # pyright: ignore[reportArgumentType]

    @staticmethod
    def key(**changes: object) -> Key:
        defaults: dict[str, object] = {
            "unit_idx": 0,
            "row_idx": 0,
            "repo": "ann/book",
            "path": "one.ipynb",
            "commit": None,
            "blob_sha": "b" * 40,
            "fork_of": None,
            "content_hash": "c" * 64,
            "is_substantial": True,
            "is_old_version": False,
        }
        return Key(**(defaults | changes))  # pyright: ignore[reportArgumentType]


class Corpus:
    """Looks into finished corpus folders."""

    @staticmethod
    def rows(folder: Path) -> list[dict[str, object]]:
        return [
            row
            for path in sorted((folder / "data").iterdir())
            for row in pq.ParquetFile(path).read().to_pylist()
        ]

    @staticmethod
    def removals(folder: Path) -> list[dict[str, object]]:
        removals: list[dict[str, object]] = []
        for path in sorted((folder / "removed").iterdir()):
            with open_packed(path) as stream:
                removals += [json.loads(line) for line in stream]
        return removals

    @staticmethod
    def files(folder: Path) -> dict[str, bytes]:
        """Relative path → content of every file below a folder."""
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture
def corpus() -> Corpus:
    return Corpus()


@pytest.fixture
def shared_corpus() -> Path:
    """The shared corpus folder, beside the repository."""
    folder = SHARED / "corpus"
    if not (folder / "raw.tar.zst").is_file():
        pytest.skip("the shared corpus (../shared/data/corpus) is not here")
    return folder


@pytest.fixture
def shards(tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the shared corpus is: two shards, one fork, one old version, odd files.

    Small as they are, each is a unit of its own.
    """
    monkeypatch.setattr(units, "_ARCHIVE_BYTES_A_UNIT", 1)
    folder = tmp_path / "shards"
    folder.mkdir()
    lesson = make.notebook(
        ("markdown", "# Lesson one: sums, products and means"), "total = sum([1, 2])"
    )
    first = {
        "ben/book/one.ipynb": lesson,
        "ann/book/LICENSE": b"text",
        "ann/book/one.ipynb": lesson,
        "ann/book/  deep/two words.ipynb": make.notebook(
            "x = 'words that are only in the book and nowhere else'"
        ),
        "ann/book@0123456789ab/one.ipynb": lesson,
        "ben/book/broken.ipynb": b'{"cells": [',
    }
    second = {
        "cat/notes/own.ipynb": make.notebook("print('a note that is only in this repository')"),
        "cat/notes/README.md": b"text",
        "dan/empty/none.ipynb": b'{"nbformat": 4, "nbformat_minor": 0, "metadata": {}}',
    }
    (folder / "00.tar.zst").write_bytes(compress(make.tar(first)))
    (folder / "01.tar.zst").write_bytes(compress(make.tar(second)))
    repos = make.json_lines(
        {"owner": "ann", "repo": "book", "licence": "MIT", "commit": "a" * 40, "fork_of": None},
        {"owner": "ben", "repo": "book", "licence": "MIT", "commit": "b" * 40}
        | {"fork_of": "ann/book"},
        {"owner": "cat", "repo": "notes", "licence": "CC0-1.0", "commit": "c" * 40},
    )
    (folder / "repos.jsonl").write_bytes(repos)
    files = {"path": "ann/book/one.ipynb", "shard": "00.tar.zst", "blob": "d" * 40}
    (folder / "files.jsonl.zst").write_bytes(compress(make.json_lines(files)))
    return folder


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Mapping[str, object]]:
    """Build ``sources`` into ``out`` (default: ``tmp_path/corpus``) and return the manifest."""

    def run(
        *sources: Path,
        out: Path | None = None,
        workers: int = 1,
        holdout: bytes | None = b"",
        recipe: str | Path = "paper",
        engine: Engine | None = None,
    ) -> Mapping[str, object]:
        extra = [HoldoutFile(name="test.jsonl", data=holdout)] if holdout else []
        bundled = [] if holdout is None else [bundled_file()]
        loaded = load_recipe(str(recipe), holdout_files=[*bundled, *extra])
        engine = engine or LocalEngine(workers=workers)
        return build_corpus(sources, out or tmp_path / "corpus", recipe=loaded, engine=engine)

    return run
