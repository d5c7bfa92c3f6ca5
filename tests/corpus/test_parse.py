import json

import pytest

from jupyt5_corpus.filters.parse import parse
from jupyt5_corpus.metadata import Repository
from jupyt5_corpus.row import Removal, Row
from jupyt5_corpus.sources import Location, RawFile

REPOSITORY = Repository(
    licence="MIT", licence_source="repos.jsonl", commit="a" * 40, fork_of="x/y", retrieved="2026-01"
)


def raw(data, *, problem=None, old_commit=None):
    location = Location(repo="ann/book", old_commit=old_commit, path="one.ipynb")
    return RawFile(name="ann/book/one.ipynb", location=location, data=data, problem=problem)


def test_a_row_carries_the_notebook_and_its_provenance(make):
    data = make.notebook(("markdown", "# T"), "x = 1", ("raw", "r"))
    row = parse(raw(data), REPOSITORY, blob_sha="f" * 40)
    assert isinstance(row, Row)
    assert (row.repo, row.path, row.commit) == ("ann/book", "one.ipynb", "a" * 40)
    assert (row.licence, row.licence_source, row.fork_of, row.retrieved) == (
        "MIT",
        "repos.jsonl",
        "x/y",
        "2026-01",
    )
    assert row.cells == make.cells(("markdown", "# T"), "x = 1", ("raw", "r"))
    assert (row.num_code, row.num_markdown, row.markdown_fraction) == (1, 1, 1 / 3)
    assert (row.nbformat, row.language, row.kernel) == (4, "python", "python3")
    assert row.blob_sha == "f" * 40


def test_the_blob_id_is_that_of_the_bytes_when_no_other_is_known():
    row = parse(raw(b'{"nbformat": 4}'), REPOSITORY, blob_sha=None)
    assert isinstance(row, Row)
    # printf '{"nbformat": 4}' | git hash-object --stdin
    assert row.blob_sha == "87c62352123084d9bfd6953f5f5d6d4924a8573f"
    assert row.cells == ()
    assert row.markdown_fraction == 0.0


def test_an_older_version_keeps_its_own_commit(make):
    row = parse(raw(make.notebook("x"), old_commit="0123456789ab"), REPOSITORY, blob_sha=None)
    assert row.commit == "0123456789ab"
    assert isinstance(row, Row)
    assert row.is_old_version


def test_damaged_json_is_removed_with_the_reader_s_reason():
    removal = parse(raw(b'{"cells": ['), REPOSITORY, blob_sha=None)
    assert isinstance(removal, Removal)
    assert (removal.step, removal.reason) == ("parse", "invalid_notebook")
    assert "is not valid JSON: Expecting value at line 1" in removal.detail
    assert removal.detail.endswith(".")
    assert "Restore" not in removal.detail
    assert removal.blob_sha is not None


def test_a_number_no_format_ever_had_is_removed():
    removal = parse(raw(b'{"nbformat": 99999999999}'), REPOSITORY, blob_sha=None)
    assert isinstance(removal, Removal)
    assert (removal.reason, removal.detail) == ("invalid_notebook", "nbformat is 99999999999")


def test_an_unreadable_file_keeps_its_own_reason():
    removal = parse(raw(None, problem=("too_large", "9 bytes")), REPOSITORY, blob_sha=None)
    assert isinstance(removal, Removal)
    assert (removal.reason, removal.detail) == ("too_large", "9 bytes")


def test_lone_surrogates_anywhere_can_be_stored():
    notebook = {
        "nbformat": 4,
        "metadata": {"kernelspec": {"name": "k\ud800", "language": "l\udfff"}},
        "cells": [{"cell_type": "code", "source": "x = '\ud83d'"}],
    }
    row = parse(raw(json.dumps(notebook).encode()), REPOSITORY, blob_sha=None)
    assert isinstance(row, Row)
    assert (row.kernel, row.language, row.cells[0].source) == ("k\ufffd", "l\ufffd", "x = '\ufffd'")


def test_endless_names_of_languages_and_kernels_are_none():
    metadata = {"kernelspec": {"name": "k" * 101}, "language_info": {"name": "l" * 3_000_000}}
    data = json.dumps({"nbformat": 4, "metadata": metadata, "cells": []}).encode()
    row = parse(raw(data), REPOSITORY, blob_sha=None)
    assert isinstance(row, Row)
    assert (row.kernel, row.language) == (None, None)
    row = parse(raw(data.replace(b"k" * 101, b"k" * 100)), REPOSITORY, blob_sha=None)
    assert isinstance(row, Row)
    assert row.kernel == "k" * 100


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b'{"nbformat": true, "cells": []}', "nbformat is true."),
        (b'{"nbformat": NaN, "cells": []}', "nbformat is NaN."),
        (b'{"nbformat": -Infinity, "cells": []}', "nbformat is -Infinity."),
        (b'{"nbformat": 4, "cells": {}}', "its cells are {}, not a list."),
        (b'{"nbformat": 4, "cells": "no"}', "its cells are no, not a list."),
    ],
)
def test_what_no_notebook_says_is_removed_and_nobody_is_told_what_to_do(data, detail):
    removal = parse(raw(data), REPOSITORY, blob_sha=None)
    assert isinstance(removal, Removal)
    assert removal.reason == "invalid_notebook"
    assert removal.detail.endswith(detail)


@pytest.mark.parametrize("stated", [b'"4"', b"4.0", b"null"])
def test_a_format_written_in_another_way_is_read(stated):
    data = b'{"nbformat": ' + stated + b', "cells": [{"cell_type": "code", "source": "x"}]}'
    row = parse(raw(data), REPOSITORY, blob_sha=None)
    assert isinstance(row, Row)
    assert (row.nbformat, len(row.cells)) == (4, 1)
