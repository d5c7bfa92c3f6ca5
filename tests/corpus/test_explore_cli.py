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
    assert "3  notebooks stay" in told
    assert "1  removed: opted_out_owner" in told
    assert "1  copies of them kept; --copies takes them out too" in told
    assert "1  entries of the list name nothing here: nobody" in told
    assert main([*options, str(tmp_path / "json"), "--copies", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["removed"] == {"opted_out_copy": 1, "opted_out_owner": 1}
    assert result["num_kept"] == 2
    assert main(["check", str(tmp_path / "json")]) == 0
    assert main([*options, str(tmp_path / "json")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_folder_goes_by_its_one_name(build, tmp_path, make, capsys):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "one.ipynb").write_bytes(make.notebook("x = 1"))
    build(tmp_path / "notes")
    (tmp_path / "list.jsonl").write_bytes(make.json_lines({"repo": "Notes"}))
    options = ["--list", str(tmp_path / "list.jsonl"), "--out", str(tmp_path / "less")]
    assert main(["opt-out", str(tmp_path / "corpus"), *options]) == 0
    assert "0  notebooks stay" in capsys.readouterr().out
    held = make.json_lines({"source": "TEST", "repo": "notes"})
    manifest = build(tmp_path / "notes", out=tmp_path / "held", holdout=held)
    assert manifest["removed"] == {"holdout_repo": 1}


@pytest.mark.parametrize("option", ["--holdout", "--opt-out"])
def test_lists_fail_alike(tmp_path, option, capsys):
    (tmp_path / "bad.jsonl").write_text("{}\n")
    (tmp_path / "one.ipynb").write_text("{}")
    build = ["build", str(tmp_path), "--out", str(tmp_path / "out"), option]
    assert main([*build, str(tmp_path / "bad.jsonl")]) == 1
    assert main([*build, str(tmp_path / "none.jsonl")]) == 2


def test_stats_has_one_form_at_a_time(finished, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["stats", str(finished), "--json", "--markdown"])
    assert caught.value.code == 2
    assert "not allowed with argument --json" in capsys.readouterr().err


def test_make_holdout_prints_json(tmp_path, capsys):
    entry = {"repo": "ann/book", "cell_sha256": "1" * 64, "grading_sha256": "2" * 64}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(entry))
    out = str(tmp_path / "list.jsonl")
    assert main(["make-holdout", str(tmp_path / "manifest.jsonl"), "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"list": out, "entries": 3}


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
