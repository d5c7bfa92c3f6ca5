"""Files of verdicts and samples survive a crash."""

from pathlib import Path

import pytest

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.jsonl import append_jsonl, read_jsonl, repair_jsonl


def test_unfinished_last_line_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    repair_jsonl(path)
    assert path.read_bytes() == b""
    append_jsonl(path, [{"a": 1}, {"b": "\ud800 é\n"}])
    whole = path.read_bytes()
    with path.open("ab") as stream:
        stream.write(b'{"c": "\xc3')
    repair_jsonl(path)
    assert path.read_bytes() == whole
    assert list(read_jsonl(path)) == [{"a": 1}, {"b": "\ud800 é\n"}]


def test_damage_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text('{"a": 1}\nnonsense\n{"b": 2}\n')
    with pytest.raises(ProblemSetError, match="line 2"):
        list(read_jsonl(path))
