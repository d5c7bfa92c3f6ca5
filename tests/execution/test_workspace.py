"""Private folders of a run."""

from pathlib import Path

import pytest

from jupyt5.execution.workspace import open_workspace


def test_copy_is_private_writable_and_gone_afterwards(tmp_path: Path) -> None:
    source = tmp_path / "repo"
    (source / "data").mkdir(parents=True)
    (source / "data" / "a.csv").write_text("x\n1\n")
    (source / "data" / "a.csv").chmod(0o444)
    (source / "answers.jsonl").write_text("secret")
    (source / "nb.ipynb").write_text("solution")
    with open_workspace(
        source,
        leave_out={source / "answers.jsonl"},
        replaced={source / "nb.ipynb": b"blank"},
    ) as workspace:
        copy = workspace.work_path / "data" / "a.csv"
        copy.write_text("changed")
        assert (workspace.work_path / "nb.ipynb").read_bytes() == b"blank"
        assert not (workspace.work_path / "answers.jsonl").exists()
        # Unix sockets have room for 107 bytes of path.
        assert len(str(workspace.socket_path / "kernel1.json")) < 100
        workspace.work_path.joinpath("data").chmod(0)
        root = workspace.work_path.parent
    assert not root.exists()
    assert (source / "data" / "a.csv").read_text() == "x\n1\n"


def test_links_are_not_copied(tmp_path: Path) -> None:
    source = tmp_path / "repo"
    source.mkdir()
    (source / "out").symlink_to("/etc")
    (source / "file").symlink_to("/etc/hostname")
    with open_workspace(source) as workspace:
        assert list(workspace.work_path.iterdir()) == []


def test_workspace_goes_when_the_block_fails() -> None:
    seen: list[Path] = []

    def fail() -> None:
        with open_workspace() as workspace:
            seen.append(workspace.work_path)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not seen[0].exists()
