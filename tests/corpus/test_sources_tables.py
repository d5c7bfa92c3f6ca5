"""Parquet files of raw notebooks."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jupyt5_corpus.metadata import Repository
from jupyt5_corpus.sources import LicenceFile, find_units, iter_files, parquet
from jupyt5_corpus.sources import records as records_module


def write(file_path, **columns):
    pq.write_table(pa.table(columns), file_path, compression="zstd")
    return file_path


def files_of(path) -> list[Any]:
    (unit,) = find_units([path])
    return list(iter_files(unit))


def reasons_of(path):
    return [(file.problem or ("",))[0] for file in files_of(path)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_rows_with_what_is_known_of_them(tmp_path, kind):
    content = pa.array(["{}", '{"a": 1}', "MIT"], pa.string()).cast(kind)
    path = write(
        tmp_path / "raw.parquet",
        repo=["ann/book", "ben/notes", "ann/book"],
        path=["sub/1.ipynb", "2.ipynb", "LICENSE"],
        content=content,
        commit=["a" * 40, None, None],
        licence=["MIT", None, None],
        other=[1, 2, 3],
    )
    first, second, third = files_of(path)
    assert (first.name, first.data) == ("ann/book/sub/1.ipynb", b"{}")
    assert (first.location.repo, first.location.path) == ("ann/book", "sub/1.ipynb")
    assert first.repository == Repository(
        licence="MIT", licence_source="raw.parquet", commit="a" * 40
    )
    assert (second.location.repo, second.repository) == ("ben/notes", None)
    assert third == LicenceFile(repo="ann/book", name="LICENSE", text="MIT")


def test_rows_that_cannot_be_used_have_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(records_module, "MAX_NOTEBOOK_BYTES", 10)
    path = write(
        tmp_path / "raw.parquet",
        repo=["a/b", "a/b", "a/b", "", "a/../b", None, "a/b"],
        path=["1.ipynb", "2.ipynb", "../3.ipynb", "4.ipynb", "5.ipynb", "6.ipynb", None],
        content=[None, "x" * 11, "{}", "{}", "{}", "{}", "{}"],
    )
    assert reasons_of(path) == ["missing_content", "too_large", *["unsafe_path"] * 5]


def test_names_that_are_not_utf8(tmp_path):
    odd = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\7\0\0\0"), pa.py_buffer(b"\xff.ipynb")]
    )
    path = write(tmp_path / "raw.parquet", repo=["a/b"], path=odd, content=["{}"])
    (file,) = files_of(path)
    assert (file.name, file.data) == ("a/b/\ufffd.ipynb", b"{}")


@pytest.mark.parametrize(
    ("columns", "named"),
    [({"repo": ["a"]}, "path, content"), ({"repo": [1], "path": ["a"], "content": ["b"]}, "repo")],
)
def test_a_table_of_something_else_has_a_reason(tmp_path, columns, named):
    (file,) = files_of(write(tmp_path / "other.parquet", **columns))
    reason, detail = file.problem
    assert reason == "missing_columns"
    assert named in detail


@pytest.mark.parametrize("kept", [0, 3, 1000, -1, -20])
def test_a_truncated_table_has_a_reason(tmp_path, kept):
    columns = {"repo": ["a/b"] * 50, "path": ["1.ipynb"] * 50, "content": ["{}" * 500] * 50}
    path = write(tmp_path / "raw.parquet", **columns)
    path.write_bytes(path.read_bytes()[:kept])
    assert reasons_of(path) == ["damaged_parquet"]


def test_a_damaged_page_has_a_reason_and_what_was_read_counts(tmp_path):
    num_rows = 100
    contents = [f"{number}" * 400 for number in range(num_rows)]
    table = pa.table({"repo": ["a/b"] * num_rows, "path": ["1.ipynb"] * num_rows})
    table = table.append_column("content", pa.array(contents))
    path = tmp_path / "raw.parquet"
    pq.write_table(
        table,
        path,
        row_group_size=20,
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    start = pq.ParquetFile(path).metadata.row_group(3).column(2).data_page_offset
    data = bytearray(path.read_bytes())
    data[start + 30 : start + 90] = b"\xff" * 60
    path.write_bytes(data)
    found = reasons_of(path)
    assert found[-1] == "damaged_parquet"
    assert 40 <= len(found) - 1 <= 60
    assert not any(found[:-1])


def test_a_decompression_bomb_is_not_opened_and_the_other_rows_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_ALWAYS_ALLOWED_BYTES", 1 << 20)
    columns = {"repo": ["a/b"] * 3, "path": ["1.ipynb"] * 3}
    table = pa.table(columns | {"content": ["{}", "0" * (50 << 20), "{}"]})
    path = tmp_path / "bomb.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=1)
    assert reasons_of(path) == ["", "decompression_bomb", ""]
