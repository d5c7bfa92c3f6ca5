"""The Slurm script's own logic, with stand-ins for Slurm's commands."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "training" / "slurm" / "train.sh"

SCONTROL = """#!/bin/bash
if [[ $1 == show ]]; then printf 'node3\\nnode4\\n'; else echo "$@" >> "$LOG"; fi
"""
# A step that ends by itself (END=code) or, once it was sent SIGUSR1, like torchrun.
SRUN = """#!/bin/bash
echo "$@" > "$LOG"
if [[ -n ${END:-} ]]; then exit "$END"; fi
trap 'echo signalled >> "$LOG"; sleep 0.2; exit 1' USR1
while true; do sleep 0.05; done
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    for name, text in (("scontrol", SCONTROL), ("srun", SRUN)):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
    job = {"SLURM_JOB_ID": "12345", "SLURM_JOB_NUM_NODES": "10", "SLURM_JOB_NODELIST": "node[3-4]"}
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {**os.environ, **job, "PATH": path, "LOG": str(tmp_path / "log")}


def arguments() -> list[str]:
    return [str(SCRIPT), "large-v100", "/data", "/run", "--set", "epochs=2"]


def test_ranks_are_started_so_that_they_can_stop_and_be_replaced(
    environment: dict[str, str], tmp_path: Path
) -> None:
    result = subprocess.run(arguments(), env={**environment, "END": "0"}, check=False)
    assert result.returncode == 0
    words = (tmp_path / "log").read_text().split()
    assert {"--nnodes=10", "--nproc-per-node=8", "--rdzv-endpoint=node3:22345"} <= set(words)
    assert any(word.startswith("--signals-to-handle=") and "SIGUSR1" in word for word in words)
    command = "jupyt5-train run large-v100 --data /data --out /run --resume --set epochs=2"
    assert " ".join(words).endswith(command)


def test_a_failure_is_not_queued_again(environment: dict[str, str], tmp_path: Path) -> None:
    result = subprocess.run(arguments(), env={**environment, "END": "3"}, check=False)
    assert result.returncode == 3
    assert "requeue" not in (tmp_path / "log").read_text()


def test_the_time_limit_stops_the_step_and_queues_the_job_again(
    environment: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    job = subprocess.Popen(arguments(), env=environment, stdout=subprocess.DEVNULL)
    while not (log.exists() and log.read_text()):
        time.sleep(0.01)
    time.sleep(0.1)  # until the stand-in can take the signal
    job.send_signal(signal.SIGUSR1)
    assert job.wait(20) == 0
    assert log.read_text().splitlines()[-2:] == ["signalled", "requeue 12345"]


def test_too_few_arguments() -> None:
    result = subprocess.run([str(SCRIPT), "base"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "usage: sbatch" in result.stderr
