"""The published set is rebuilt from repositories, here from a mirror that the test makes."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from jupyt5.errors import ProblemSetError, UsageError
from jupyt5.notebook import read_notebook
from jupyt5_dsp.fetch import FetchConfig, Fetched, fetch, find_fault
from jupyt5_dsp.fetch_manifest import read_manifest
from jupyt5_dsp.problems import load_problem_set

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "dsp"
CELLS = [
    ("markdown", "Write `add`."),
    (
        "code",
        "# yours\ndef add(a, b):\n    ### BEGIN SOLUTION\n    return a + b\n    ### END SOLUTION",
    ),
    ("code", "assert add(2, 3) == 5"),
]


def write_notebook(path: Path, cells: list[tuple[str, str]]) -> None:
    document = {
        "nbformat": 4,
        "nbformat_minor": 2,
        "metadata": {},
        "cells": [
            {
                "cell_type": kind,
                "metadata": {},
                "source": source,
                **({"execution_count": 3, "outputs": []} if kind == "code" else {}),
            }
            for kind, source in cells
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def make_repository(mirror: Path, name: str, path: str = "week 1/é.ipynb") -> str:
    """Make a repository in the mirror; returns its first commit, which is not its last one."""
    folder = mirror / name
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    git(folder, "config", "uploadpack.allowFilter", "true")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    write_notebook(folder / path, CELLS)
    write_notebook(folder / "other.ipynb", [("code", "secret = 1")])
    (folder / "data").mkdir()
    (folder / "data" / "x.csv").write_bytes(b"x\r\n1\r\n")
    (folder / "link").symlink_to("/etc/passwd")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    commit = git(folder, "rev-parse", "HEAD")
    write_notebook(folder / path, [("markdown", "gone")])
    git(folder, "commit", "--quiet", "-a", "-m", "two")
    return commit


def line(repo: str, commit: str, task_id: str, **changes: object) -> str:
    record: dict[str, object] = {
        "task_id": task_id,
        "repo": repo,
        "commit": commit,
        "path": "week 1/é.ipynb",
        "cell_index": 1,
        "cell_sha256": hashlib.sha256(CELLS[1][1].encode()).hexdigest(),
        "grading_sha256": hashlib.sha256(CELLS[2][1].encode()).hexdigest(),
    }
    return json.dumps(record | changes)


def run(tmp_path: Path, lines: list[str], mirror: str | None = None) -> Fetched:
    manifest_path = tmp_path / "manifest.jsonl"
    manifest_path.write_text("\n".join(lines))
    config = FetchConfig(
        sources=read_manifest(manifest_path),
        out_path=tmp_path / "out",
        mirror=mirror or str(tmp_path / "mirror"),
        num_workers=2,
    )
    return fetch(config)


def test_set_is_rebuilt_and_what_is_gone_is_told(tmp_path: Path) -> None:
    commit = make_repository(tmp_path / "mirror", "ann/course")
    other = make_repository(tmp_path / "mirror", "bob/course")
    make_repository(tmp_path / "mirror", "eve/course")
    lines = [
        line("zoe/lost", "0" * 40, "DSP/0"),
        line("ann/course", commit, "DSP/1"),
        line("ann/course", commit, "DSP/2", cell_sha256="0" * 64),
        line("ann/course", commit, "DSP/3", path="none.ipynb"),
        line("eve/course", "1" * 40, "DSP/4"),
        line("bob/course", other, "DSP/5"),
    ]
    fetched = run(tmp_path, lines)
    assert (fetched.num_problems, fetched.num_rebuilt, fetched.is_complete) == (6, 2, True)
    out = tmp_path / "out"
    problem_set = load_problem_set(out)
    assert [problem.task_id for problem in problem_set.problems] == ["DSP/1", "DSP/5"]
    problem = problem_set.problems[0]
    assert problem.notebook_path == "ann.course/week 1/é.ipynb"
    cells = problem_set.cells_of(problem)
    assert [(cell.kind, cell.source) for cell in cells] == CELLS
    assert cells[1].metadata == {"task_id": "DSP/1"}
    assert '"execution_count": 3' not in (out / problem.notebook_path).read_text()
    assert (out / "ann.course" / "data" / "x.csv").read_bytes() == b"x\r\n1\r\n"
    assert not list(out.rglob("other.ipynb"))
    assert not list(out.rglob("link"))
    gone = [json.loads(text) for text in (out / "gone.jsonl").read_text().splitlines()]
    reasons = {one["task_id"]: one["reason"] for one in gone}
    assert list(reasons) == ["DSP/0", "DSP/2", "DSP/3", "DSP/4"]
    assert "SHA-256 differs" in reasons["DSP/2"]
    assert "none.ipynb" in reasons["DSP/3"]
    assert "not our ref" in reasons["DSP/4"]


def test_second_fetch_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    commit = make_repository(mirror, "ann/course")
    lines = [line("ann/course", commit, "DSP/0"), line("bob/course", "2" * 40, "DSP/1")]
    first = run(tmp_path, lines)
    assert [one.trouble for one in first.missing] == ["gone"]
    (mirror / "ann").rename(mirror / "moved")
    problems = (tmp_path / "out" / "problems.jsonl").read_bytes()
    assert run(tmp_path, lines) == first
    assert (tmp_path / "out" / "problems.jsonl").read_bytes() == problems


def test_unreachable_repositories_are_asked_again(tmp_path: Path) -> None:
    commit = make_repository(tmp_path / "mirror", "ann/course")
    lines = [line("ann/course", commit, "DSP/0")]
    # Nothing listens on port 9 of this machine.
    with pytest.raises(ProblemSetError, match="None of 1 repositories could be fetched"):
        run(tmp_path, lines, "http://127.0.0.1:9")
    assert run(tmp_path, lines).num_rebuilt == 1


def test_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    commit = make_repository(tmp_path / "mirror", "ann/course")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        run(tmp_path, [line("ann/course", commit, "DSP/0")])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_mirror_is_an_address_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither an address"):
        run(tmp_path, [line("ann/course", "0" * 40, "DSP/0")], "github.com")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"repo": "../../etc"}, "repo is"),
        ({"repo": "--upload-pack=x/y"}, "repo is"),
        ({"commit": "main"}, "commit is"),
        ({"path": "../x.ipynb"}, "leads out"),
        ({"path": "/x.ipynb"}, "leads out"),
        ({"cell_index": -1}, "cell_index"),
        ({"cell_sha256": "x"}, "cell_sha256"),
    ],
)
def test_odd_manifest_is_refused(tmp_path: Path, changes: dict[str, object], text: str) -> None:
    with pytest.raises(ProblemSetError, match=text) as caught:
        run(tmp_path, [json.dumps(json.loads(line("ann/course", "0" * 40, "DSP/0")) | changes)])
    assert "line 1" in str(caught.value)


def test_one_repository_has_one_commit(tmp_path: Path) -> None:
    lines = [line("ann/course", digit * 40, f"DSP/{digit}") for digit in "01"]
    with pytest.raises(ProblemSetError, match="ann/course at two commits"):
        run(tmp_path, lines)


def test_shared_notebooks_have_the_digests_of_the_manifest() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not here")
    num_checked = 0
    for source in read_manifest():
        for entry in source.entries:
            path = SHARED / source.folder_name / entry.path
            if path.is_file():
                num_checked += 1
                assert not find_fault(read_notebook(path).cells, entry)
    # Of 672; the other 7 are in repositories that were renamed since.
    assert num_checked == 665


def test_manifest_ships_with_the_package() -> None:
    sources = read_manifest()
    entries = [entry for source in sources for entry in source.entries]
    assert (len(sources), len(entries)) == (70, 1091)
    assert len({entry.task_id for entry in entries}) == 1091
    assert len({source.folder_name for source in sources}) == 70
