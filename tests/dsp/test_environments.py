"""Lock files of ``dsp-eval env``: whole, pinned, hashed, and what the 2021 one is there for."""

import json
import re
import shlex
import shutil
import subprocess
from collections import defaultdict
from importlib import resources
from pathlib import Path

import pytest

from jupyt5_dsp.cli import main
from jupyt5_dsp.environments import ENVIRONMENTS, Environment, count_packages, read_lock

PROBLEMS_PATH = Path(__file__).parents[3] / "shared/data/dsp/problems.jsonl"
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")

every_environment = pytest.mark.parametrize(
    "environment", ENVIRONMENTS, ids=lambda environment: environment.name
)


def iter_entries(lock: str) -> list[str]:
    """One string a package: its pin, its marker and its hashes."""
    lines = [line for line in lock.splitlines() if line.strip() and not line.startswith("#")]
    return "\n".join(lines).replace(" \\\n    ", " ").splitlines()


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@every_environment
def test_every_package_is_pinned_and_hashed(environment: Environment) -> None:
    entries = iter_entries(read_lock(environment))
    assert len(entries) >= count_packages(read_lock(environment)) > 80
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==[^ ;]+ ", entry), entry
        assert HASH.search(entry), entry
        # A lock file says what, not from where.
        assert "://" not in entry
        assert " @ " not in entry


@every_environment
def test_lock_holds_what_the_short_list_asks_for(environment: Environment) -> None:
    folder = resources.files("jupyt5_dsp.environments")
    asked = folder.joinpath(f"{environment.name}.in").read_text(encoding="utf-8").splitlines()
    pins = {entry.split(" ")[0] for entry in iter_entries(read_lock(environment))}
    names = {pin.split("==")[0] for pin in pins}
    for line in asked:
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            assert normalise(name) in names
            assert not version or f"{normalise(name)}=={version}" in pins


def test_worker_needs_are_met() -> None:
    for environment in ENVIRONMENTS:
        found = re.search(r"^ipython==(\d+)", read_lock(environment), re.MULTILINE)
        assert found
        assert int(found[1]) >= 7
        assert tuple(map(int, environment.python.split("."))) >= (3, 8)


def test_command_writes_the_lock_and_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "my lock.txt"
    assert main(["env", "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == read_lock(ENVIRONMENTS[0])
    said = capsys.readouterr().out
    commands = [shlex.split(line) for line in said.splitlines() if line.startswith("  ")]
    assert ["uv", "venv", "--python", "3.9", "dsp-anaconda-2021"] in commands
    installs = [command for command in commands if "--require-hashes" in command]
    assert len(installs) == 3
    assert all(command[command.index("-r") + 1] == str(out) for command in installs)
    assert any("dsp-anaconda-2021/bin/python" in command for command in commands)
    # The same again does no harm.
    assert main(["env", "--out", str(out)]) == 0


def test_default_file_is_named_after_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["env", "--name", "modern"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["dsp-modern.txt"]


def test_other_files_are_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "precious.txt"
    out.write_text("mine")
    assert main(["env", "--out", str(out)]) == 2
    assert out.read_text() == "mine"
    assert "exists already and is something else" in capsys.readouterr().err
    assert main(["env", "--out", str(tmp_path / "none" / "lock.txt")]) == 1
    assert main(["env", "--out", str(tmp_path)]) == 2


def test_unknown_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "--name", "anaconda", "--out", str(tmp_path / "x")]) == 2
    assert "Choose one of: anaconda-2021, modern" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.network
@pytest.mark.slow
@every_environment
def test_lock_can_be_resolved_whole_and_without_compiling(
    environment: Environment, tmp_path: Path
) -> None:
    """Ask pip, which checks every hash and that nothing is missing, for the files alone."""
    python = shutil.which(f"python{environment.python}")
    if python is None or subprocess.run([python, "-m", "pip", "-V"], check=False).returncode:
        pytest.skip(f"no Python {environment.python} with pip on PATH")
    lock_path = tmp_path / "lock.txt"
    lock_path.write_text(read_lock(environment), encoding="utf-8")
    command = [python, "-m", "pip", "download", "--quiet", "--require-hashes"]
    command += ["--only-binary", ":all:", "-r", str(lock_path), "-d", str(tmp_path / "files")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


# Task ids (DSP/n) of the problems that need the libraries of 2021, by why newer ones fail.
ONLY_2021 = {
    "AssertionError in test": "50 166 167 213 272 685 686 786 792 862 870",
    "AttributeError (removed/changed API)": (
        "311 312 313 315 335 336 337 338 339 478 479 480 481 482 691 755"
    ),
    "NameError (never defined)": "41 45",
    "TypeError (signature/strictness)": "753",
    "UnicodeDecodeError": "458",
    "ValueError": "194 762",
    "removed import": "144",
}


def test_problems_that_pass_only_with_the_libraries_of_2021() -> None:
    if not PROBLEMS_PATH.is_file():
        pytest.skip(f"{PROBLEMS_PATH} is not there")
    found: dict[str, set[str]] = defaultdict(set)
    for line in PROBLEMS_PATH.read_text(encoding="utf-8").splitlines():
        problem = json.loads(line)
        if problem["passes_py39"] and not problem["passes_modern"]:
            found[problem["cause"]].add(problem["task_id"].removeprefix("DSP/"))
    assert found == {cause: set(ids.split()) for cause, ids in ONLY_2021.items()}
    assert sum(map(len, found.values())) == 34
