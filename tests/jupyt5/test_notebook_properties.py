"""Nothing but NotebookError leaves the reader, whatever it is given; also on real notebooks."""

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyt5.errors import NotebookError
from jupyt5.notebook import Notebook, read_notebook, write_cell_source

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
CORPUS, DSP = DATA / "corpus", DATA / "dsp"

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
names = st.sampled_from(
    ["cells", "source", "input", "metadata", "nbformat", "nbformat_minor", "worksheets",
     "cell_type", "id", "level", "kernelspec", "language_info", "name", "nbgrader", "language"]
)  # fmt: skip
values = st.sampled_from(["code", "markdown", "heading", 2, 3, 4, 5, True, {}, []]) | scalars
documents = st.recursive(
    values,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=6),
    max_leaves=25,
)


def try_read(raw: bytes) -> Notebook | None:
    try:
        notebook = read_notebook(raw, name="x.ipynb")
    except NotebookError:
        return None
    for cell in notebook.cells:
        assert cell.kind in {"code", "markdown", "raw"}
        cell.source.encode("utf-8")
    return notebook


@given(raw=st.binary(max_size=200))
@settings(max_examples=300)
def test_any_bytes(raw: bytes) -> None:
    try_read(raw)
    try_read(b'{"nbformat": 4, "cells": [' + raw + b"]}")


@given(document=documents)
@settings(max_examples=500)
def test_any_json(document: object) -> None:
    try_read(json.dumps(document).encode())
    try_read(json.dumps({"nbformat": 4, "cells": [document]}).encode())
    try_read(json.dumps({"nbformat": 3, "worksheets": [{"cells": [document]}]}).encode())


@given(
    sources=st.lists(st.text(max_size=20) | st.lists(st.text(max_size=5)), min_size=1, max_size=5),
    data=st.data(),
    indent=st.sampled_from([None, 1, 2]),
    new=st.text(max_size=30),
)
@settings(max_examples=200, deadline=None)
def test_write_changes_one_source(
    tmp_path_factory: pytest.TempPathFactory,
    sources: list[str | list[str]],
    data: st.DataObject,
    indent: int | None,
    new: str,
) -> None:
    cell_idx = data.draw(st.integers(0, len(sources) - 1))
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    path = tmp_path_factory.mktemp("write") / "n.ipynb"
    path.write_text(json.dumps(document, indent=indent), encoding="utf-8")
    before = read_notebook(path)
    write_cell_source(path, cell_idx, new)
    after = read_notebook(path)
    assert after.cells[cell_idx].source == new
    expected = [cell.source for cell in before.cells]
    expected[cell_idx] = new
    assert [cell.source for cell in after.cells] == expected
    written = json.loads(path.read_bytes())
    written["cells"][cell_idx]["source"] = document["cells"][cell_idx]["source"]
    assert written == document


def iter_raw_shard() -> Iterator[tuple[str, bytes]]:
    command = ["zstd", "-dcq", str(CORPUS / "raw.tar.zst")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as unpacked,
        tarfile.open(fileobj=unpacked.stdout, mode="r|") as archive,
    ):
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is not None and member.name.endswith(".ipynb"):
                yield member.name, stream.read()


def read_index() -> dict[str, dict[str, object]]:
    command = ["zstd", "-dcq", str(CORPUS / "files.jsonl.zst")]
    listing = subprocess.run(command, capture_output=True, check=True).stdout
    lines = map(json.loads, listing.splitlines())
    return {line["path"]: line for line in lines if str(line["shard"]).startswith("raw")}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not beside this checkout")
@pytest.mark.skipif(shutil.which("zstd") is None, reason="the command zstd is not installed")
def test_raw_shard_of_the_corpus() -> None:
    """All odd originals are read, but for those that the corpus' own index calls damaged."""
    index = read_index()
    notebooks = {path: try_read(raw) for path, raw in iter_raw_shard()}
    assert len(notebooks) == len(index) > 400
    refused = {path for path, notebook in notebooks.items() if notebook is None}
    assert refused == {path for path, line in index.items() if line["error"]}
    for path, notebook in notebooks.items():
        if notebook is not None and index[path]["cells"] is not None:
            assert len(notebook.cells) == index[path]["cells"], path
            assert notebook.nbformat == index[path]["nbformat"], path


@pytest.mark.skipif(not DSP.is_dir(), reason="the shared problem set is not beside this checkout")
def test_every_benchmark_notebook_is_read() -> None:
    paths = sorted(DSP.rglob("*.ipynb"))
    assert len(paths) > 100
    for path in paths[::4]:
        notebook = read_notebook(path)
        assert any(cell.role == "solution" for cell in notebook.cells), path.name
        assert notebook.language in {"python", None}, path.name
