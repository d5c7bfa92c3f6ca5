"""Which folders nobody inside the sandbox sees."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from jupyt5_dsp import commands
from jupyt5_dsp.cli import main
from jupyt5_dsp.run_folder import list_sibling_runs


def make_runs(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "run.json").write_text("{}")
    return [folder / name for name in names]


def test_runs_beside_a_run(tmp_path: Path) -> None:
    assert list_sibling_runs(tmp_path / "missing" / "run") == []
    first, second, own = make_runs(tmp_path, "a", "b", "own")
    (tmp_path / "no run").mkdir()
    make_runs(tmp_path / "deep", "c")
    assert list_sibling_runs(own) == [first, second]
    assert list_sibling_runs(tmp_path / "new") == [first, second, own]


class FoundError(Exception):
    """Ends the command where its sandbox would be chosen."""


@pytest.mark.parametrize("samples", ["gold", "file"])
def test_a_run_hides_what_holds_answers(
    samples: str, add_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden: list[Path] = []

    def choose(name: str, interpreter: object, *, hidden_paths: Sequence[Path]) -> None:
        hidden.extend(hidden_paths)
        raise FoundError

    monkeypatch.setattr(commands, "choose_sandbox", choose)
    (other,) = make_runs(tmp_path / "runs", "other")
    out = tmp_path / "runs" / "own"
    file = tmp_path / "answers" / "samples.jsonl"
    argv = ["run", "--problems", str(add_set), "--out", str(out)]
    with pytest.raises(FoundError):
        main([*argv, "--samples", str(file) if samples == "file" else samples])
    assert hidden == [add_set, out, other, *([file.parent] if samples == "file" else [])]
