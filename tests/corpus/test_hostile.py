"""Hostile notebooks through the whole default recipe: each is kept or has a reason."""

import json

import pytest

pytestmark = pytest.mark.slow  # the rules of the detectors take seconds to compile

DEEP = 100_000


def with_source(make, source):
    notebook = json.loads(make.notebook("x = 1"))
    notebook["cells"][0]["source"] = source
    return notebook


def members(make):
    good = json.loads(make.notebook("y = 'some text that is in no other notebook'"))
    long_line = "a" * 2_000_000
    return {
        "deep.ipynb": b'{"cells": ' + b"[" * DEEP + b"]" * DEEP + b', "nbformat": 4}',
        "deep_metadata.ipynb": b'{"metadata": '
        + b'{"a":' * DEEP
        + b"1"
        + b"}" * DEEP
        + b', "cells": [], "nbformat": 4}',
        "nan.ipynb": json.dumps(
            {**with_source(make, "z = 'beside a NaN'"), "metadata": {"x": float("nan")}}
        ).encode(),
        "twice.ipynb": b'{"cells": [], "cells": [], "nbformat": 4, "nbformat": 4, "metadata": {}}',
        "surrogate.ipynb": json.dumps(with_source(make, "\ud800 = 1")).encode(),
        "nul.ipynb": json.dumps(with_source(make, "a\0b = 'text with a NUL in its name'")).encode(),
        "bytes.ipynb": b"\xff\xfe\x00\x01",
        "latin.ipynb": make.notebook("x = 'é'").replace(b"\\u00e9", b"\xe9"),
        "bom.ipynb": b"\xef\xbb\xbf" + make.notebook("x = 'after a byte order mark'"),
        "utf16.ipynb": make.notebook("x = 'in sixteen bits'").decode().encode("utf-16"),
        "empty.ipynb": b"",
        "list.ipynb": b"[]",
        "number.ipynb": b"1",
        "odd_source.ipynb": json.dumps(with_source(make, {"a": 1})).encode(),
        "odd_lines.ipynb": json.dumps(with_source(make, [1, None, "x"])).encode(),
        "odd_cells.ipynb": json.dumps({**good, "cells": [1, None, "x", []]}).encode(),
        "odd_metadata.ipynb": json.dumps({**good, "metadata": [1]}).encode(),
        "odd_kernel.ipynb": json.dumps({**good, "metadata": {"kernelspec": 5}}).encode(),
        "odd_nbformat.ipynb": json.dumps({**good, "nbformat": "four"}).encode(),
        "huge_nbformat.ipynb": json.dumps({**good, "nbformat": 10**30}).encode(),
        "long_line.ipynb": make.notebook(long_line),
        "many_cells.ipynb": make.notebook(*["x"] * 20_000),
        "control.ipynb": make.notebook("\x1b[31m\x07\u202e\ufeff\u2028 text between odd marks"),
    }


def test_hostile_notebooks_are_kept_or_have_a_reason(tmp_path, build, corpus, make):
    files = {f"bad/bad/{name}": data for name, data in members(make).items()}
    files["bad/bad/LICENSE"] = b"\xff\x00" * 1_000
    (tmp_path / "bad.tar").write_bytes(make.tar(files))
    recipe = tmp_path / "all.yaml"
    steps = "parse, normalise, holdout, overlap, exact_duplicates, near_duplicates, language"
    recipe.write_text(f"name: all\nsteps: [{steps}, licences: {{policy: all}}, secrets, quality]\n")
    manifest = build(tmp_path / "bad.tar", recipe=recipe)
    records = corpus.rows(tmp_path / "corpus") + corpus.removals(tmp_path / "corpus")
    assert sorted(each["path"] for each in records) == sorted(members(make))
    assert manifest["notebooks_in"] == len(members(make))
    reasons = {each["path"]: each["reason"] for each in corpus.removals(tmp_path / "corpus")}
    assert all(each["detail"] for each in corpus.removals(tmp_path / "corpus"))
    for name in ("deep", "bytes", "empty", "list", "number"):
        assert reasons[f"{name}.ipynb"] == "invalid_notebook"
    kept = {row["path"]: row for row in corpus.rows(tmp_path / "corpus")}
    for name in ("nan", "surrogate", "nul", "bom", "utf16", "long_line", "control"):
        assert f"{name}.ipynb" in kept
    assert "\0" not in kept["nul.ipynb"]["cells"][0]["source"]
