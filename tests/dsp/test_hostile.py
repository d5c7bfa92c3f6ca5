"""No hostile completion passes unseen, and none leaves a trace, in forks and in fresh processes."""

import hashlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from jupyt5.execution.suspicion import find_suspicions
from jupyt5_dsp.problems import load_problem_set

from .hostile_corpus import PROBLEMS, Hostile, read_hostile

HOSTILE = read_hostile()
TECHNIQUES = (
    "frames",
    "descriptors",
    "garbage",
    "shell",
    "transformers",
    "assertion",
    "comparison",
    "helpers",
    "planted",
    "native",
)
MARKER = "JUPYT5_HOSTILE_TEST"
OUTSIDE = ("/etc", "/", "/usr", "/var/tmp", "/tmp")
# A fresh process runs the context cells again, half a second or more each time.
NUM_IN_FRESH_PROCESSES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    verdict: str
    flags: tuple[str, ...]
    message: str

    @property
    def is_clean_pass(self) -> bool:
        return self.verdict == "passed" and not self.is_suspect

    @property
    def is_suspect(self) -> bool:
        return any(flag.startswith("suspect: ") for flag in self.flags)


def test_the_corpus_is_large_and_spread() -> None:
    counts = Counter(hostile.technique for hostile in HOSTILE)
    assert len(HOSTILE) >= 60
    assert all(counts[technique] >= 5 for technique in TECHNIQUES)
    assert len({hostile.completion for hostile in HOSTILE}) == len(HOSTILE)
    helpers = Counter(h.task_id for h in HOSTILE if h.technique == "helpers")
    assert all(helpers[task_id] >= 3 for task_id in ("numpy", "unittest", "pandas"))


@pytest.mark.parametrize("hostile", [h for h in HOSTILE if h.kind == "C"], ids=lambda h: h.purpose)
def test_native_memory_is_flagged_by_the_text_alone(hostile: Hostile) -> None:
    assert scan(hostile)


def test_references_are_not_flagged() -> None:
    problem_set = load_problem_set(PROBLEMS)
    for problem in problem_set.problems:
        reference = problem_set.cells_of(problem)[problem.cell_idx].source
        assert not scan(
            Hostile(
                technique="",
                kind="H",
                task_id=problem.task_id,
                purpose="",
                completion=reference,
            )
        )


def scan(hostile: Hostile) -> tuple[str, ...]:
    problem_set = load_problem_set(PROBLEMS)
    problem = next(p for p in problem_set.problems if p.task_id == hostile.task_id)
    cells = problem_set.cells_of(problem)
    return find_suspicions(
        hostile.completion,
        cells[problem.cell_idx].source,
        [cells[idx].source for idx in problem.grading_idxs],
        [cell.source for cell in cells[: problem.cell_idx] if cell.kind == "code"],
    )


@pytest.fixture(scope="module", params=["fork", "kernel"])
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[Hostile, Found], Path]:
    """Run every completion, or some of each technique, and the references; look at the traces."""
    isolation = str(request.param)
    folder = tmp_path_factory.mktemp(isolation)
    (folder / "tmp").mkdir()
    before = look_outside()
    problems_before = hash_tree(PROBLEMS)
    held_before = held_memory_bytes()
    verdicts = grade(folder, HOSTILE if isolation == "fork" else choose_few(), isolation)
    time.sleep(1)
    assert list_marked_processes() == []
    assert list((folder / "tmp").iterdir()) == []
    assert look_outside() <= before
    assert hash_tree(PROBLEMS) == problems_before
    # Namespaces and their file systems are taken down in the background.
    deadline = time.monotonic() + 60
    while (held := held_memory_bytes()) >= held_before + (1 << 30) and time.monotonic() < deadline:
        time.sleep(1)
    assert held < held_before + (1 << 30)
    return verdicts, folder


@pytest.mark.kernel
@pytest.mark.slow
def test_no_hostile_completion_passes_unseen(run: tuple[dict[Hostile, Found], Path]) -> None:
    verdicts, _ = run
    unseen = [
        (hostile.technique, hostile.purpose, found)
        for hostile, found in verdicts.items()
        if found.is_clean_pass and hostile.kind != "H"
    ]
    assert unseen == []
    blamed = {found.verdict for found in verdicts.values()}
    assert not blamed & {"context", "invalid"}


@pytest.mark.kernel
@pytest.mark.slow
def test_native_memory_is_flagged_or_refused(run: tuple[dict[Hostile, Found], Path]) -> None:
    verdicts, _ = run
    for hostile, found in verdicts.items():
        if hostile.kind == "C" and found.verdict == "passed":
            assert found.is_suspect, hostile.purpose


@pytest.mark.kernel
@pytest.mark.slow
def test_harm_beside_a_right_answer_does_not_fail(run: tuple[dict[Hostile, Found], Path]) -> None:
    verdicts, _ = run
    harmful = {h.purpose: f.verdict for h, f in verdicts.items() if h.kind == "H"}
    assert set(harmful.values()) == {"passed"}, harmful


@pytest.mark.kernel
@pytest.mark.slow
def test_no_secret_of_the_environment_is_seen(run: tuple[dict[Hostile, Found], Path]) -> None:
    _, folder = run
    assert "hostile-secret-value" not in (folder / "out" / "verdicts.jsonl").read_text()


def choose_few() -> list[Hostile]:
    """Return all that do harm, and two or more of each technique by a fixed seed."""
    shuffled = random.Random(0).sample(HOSTILE, len(HOSTILE))
    ranks, counts = dict[Hostile, int](), Counter[str]()
    for hostile in shuffled:
        ranks[hostile] = -1 if hostile.kind == "H" else next_index(counts, hostile.technique)
    return sorted(HOSTILE, key=lambda hostile: ranks[hostile])[:NUM_IN_FRESH_PROCESSES]


def grade(folder: Path, chosen: list[Hostile], isolation: str) -> dict[Hostile, Found]:
    samples = [{"task_id": h.task_id, "completion": h.completion} for h in chosen]
    problem_set = load_problem_set(PROBLEMS)
    # After all that was done: an honest sample of each problem still passes.
    honest = [
        {"task_id": problem.task_id, "completion": problem_set.reference_of(problem)}
        for problem in problem_set.problems
    ]
    lines = [json.dumps(sample) + "\n" for sample in [*samples, *honest]]
    (folder / "samples.jsonl").write_text("".join(lines))
    program = "import sys; from jupyt5_dsp.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "run", "--problems", str(PROBLEMS)]
    command += ["--samples", str(folder / "samples.jsonl"), "--out", str(folder / "out")]
    # Many of them only wait: more workers than processors.
    command += ["--isolation", isolation, "--timeout-s", "2", "-k", "1", "--workers", "4"]
    environment = os.environ | {
        MARKER: str(os.getpid()),
        "HOSTILE_SECRET": "hostile-secret-value",
        "TMPDIR": str(folder / "tmp"),
    }
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=1800, check=False
    )
    if done.returncode and re.search(r"sandbox|namespace", done.stderr):
        pytest.skip(f"no sandbox here: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr[-2000:]
    found = read_verdicts(folder / "out" / "verdicts.jsonl")
    counts = Counter[str]()
    keys = [(h.task_id, next_index(counts, h.task_id)) for h in chosen]
    for problem in problem_set.problems:
        last = found[problem.task_id, counts[problem.task_id]]
        assert last.verdict == "passed", (problem.task_id, last)
        assert not last.is_suspect, (problem.task_id, last)
    return {hostile: found[key] for hostile, key in zip(chosen, keys, strict=True)}


def next_index(counts: Counter[str], task_id: str) -> int:
    counts[task_id] += 1
    return counts[task_id] - 1


def read_verdicts(path: Path) -> dict[tuple[str, int], Found]:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        (record["task_id"], record["sample_idx"]): Found(
            verdict=record["verdict"], flags=tuple(record["flags"]), message=record["message"]
        )
        for record in records
    }


def list_marked_processes() -> list[int]:
    """Return processes, this one apart, that carry the marker in their environment."""
    marker = f"{MARKER}={os.getpid()}".encode()
    found = list[int]()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def look_outside() -> set[str]:
    folders = [*map(Path, OUTSIDE), Path.home()]
    names = (path for folder in folders for path in folder.iterdir())
    return {str(path) for path in names if re.search(r"x-hostile", path.name)}


def hash_tree(root: Path) -> dict[str, str]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def held_memory_bytes() -> int:
    """What a dead sample can leave behind: files in memory, shared segments, the kernel's own.

    What is available is no measure of it: the page cache and a virtual machine's host change that.
    """
    text = Path("/proc/meminfo").read_text()
    return sum(
        int(re.findall(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[0]) * 1024
        for name in ("Shmem", "SUnreclaim", "KernelStack", "PageTables")
    )
