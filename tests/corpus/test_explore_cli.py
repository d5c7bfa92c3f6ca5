import json

import pytest

from jupyt5_corpus.cli import main


@pytest.fixture
def finished(shards, build, tmp_path):
    build(shards)
    return tmp_path / "corpus"


def test_stats_as_text_markdown_and_json(finished, capsys):
    assert main(["stats", str(finished)]) == 0
    assert "JuPyT5 paper" in capsys.readouterr().out
    assert main(["stats", str(finished), "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("|  | this corpus | JuPyT5 paper |\n|---")
    assert main(["stats", str(finished), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["corpus"]["num_notebooks_in"] == 7
    assert figures["paper"]["num_cells"] == 221_000_000


def test_opt_out_says_what_it_did(finished, tmp_path, make, capsys):
    path = tmp_path / "list.jsonl"
    path.write_bytes(make.json_lines({"owner": "cat"}, {"repo": "ben/book"}, {"owner": "nobody"}))
    options = ["opt-out", str(finished), "--list", str(path), "--out"]
    assert main([*options, str(tmp_path / "less")]) == 0
    told = capsys.readouterr().out
    assert "1  removed: opted_out_owner" in told
    assert "1  copies of them kept; --copies takes them out too" in told
    assert "1  entries of the list name nothing here: nobody" in told
    assert main([*options, str(tmp_path / "json"), "--copies", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["removed"] == {"opted_out_copy": 1, "opted_out_owner": 1}
    assert main(["check", str(tmp_path / "json")]) == 0


def test_errors_are_one_line_each(finished, tmp_path, capsys):
    out = str(tmp_path / "map.html")
    assert main(["map", str(finished), "--out", out]) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith("Map a larger corpus.")
    assert main(["map", str(finished), "--out", out, "--notebooks", "2"]) == 2
    assert "--notebooks 2 is too small" in capsys.readouterr().err
    assert main(["stats", str(tmp_path)]) == 1
    assert "holds no corpus" in capsys.readouterr().err
    missing = ["--list", str(tmp_path / "none"), "--out", str(tmp_path / "less")]
    assert main(["opt-out", str(finished), *missing]) == 2
    assert "cannot be read" in capsys.readouterr().err
