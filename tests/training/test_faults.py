"""Processes that are killed or asked to stop: training goes on, its losses on the same track."""

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from jupyt5_training.checkpoints import find_checkpoints
from jupyt5_training.metrics import read_metrics

pytestmark = pytest.mark.slow

STEPS = 12
SAVE_EVERY = 3
PATIENCE_S = 180.0
# Sums in another order, over several ranks.
TOLERANCE = 1e-5
SETTINGS = {
    "model.d_model": 32,
    "model.ffn_dim": 64,
    "examples.formatter.source_budget_tokens": 96,
    "examples.formatter.max_target_tokens": 32,
    "batch_tokens": 512,
    "micro_batches": 4,
    "eval_every": STEPS,
    "eval_targets": 8,
    "save_every": SAVE_EVERY,
    "num_threads": 1,
}


class Launcher:
    """Starts ranks of a training run and ends those that are left."""

    def __init__(self, data: Path) -> None:
        self._data = data
        script = str(Path(__file__).with_name("launcher.py"))
        self._process = subprocess.Popen(
            [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._alive: list[int] = []

    def argv(self, run: Path, *, steps: int = STEPS, parallel: str = "ddp") -> list[str]:
        settings = {**SETTINGS, "steps": steps, "parallel": parallel}
        options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        paths = ["--data", str(self._data), "--out", str(run), "--resume"]
        return ["run", "debug", *paths, *options]

    def start(
        self, run: Path, num_ranks: int = 1, *, steps: int = STEPS, parallel: str = "ddp"
    ) -> list[int]:
        """Start all ranks; returns their process ids."""
        argv = self.argv(run, steps=steps, parallel=parallel)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        pids = []
        for rank in range(num_ranks):
            env = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_ranks}
            env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            log = str(run.with_suffix(f".{rank}.log"))
            text_env = {key: str(value) for key, value in env.items()} if num_ranks > 1 else {}
            pids.append(self._ask({"argv": argv, "env": text_env, "log": log}))
        self._alive += pids
        return pids

    def wait(self, pids: Sequence[int]) -> list[int]:
        codes = [self._ask({"wait": pid}) for pid in pids]
        self._alive = [pid for pid in self._alive if pid not in pids]
        return codes

    def close(self) -> None:
        for pid in self._alive:
            os.kill(pid, signal.SIGKILL)
        self._process.communicate()

    def _ask(self, command: dict[str, object]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@pytest.fixture(scope="module")
def launcher(data: Path) -> Iterator[Launcher]:
    made = Launcher(data)
    yield made
    made.close()


@pytest.fixture(scope="module")
def reference(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """Losses of an undisturbed run of one process."""
    run = tmp_path_factory.mktemp("reference") / "run"
    assert launcher.wait(launcher.start(run)) == [0]
    return losses(run)


@pytest.fixture(scope="module")
def reference_orders(
    launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, str]:
    run = tmp_path_factory.mktemp("orders") / "run"
    for steps in (4, 8, STEPS):
        assert launcher.wait(launcher.start(run, steps=steps)) == [0]
    assert sorted(orders(run)) == [0, 4, 8]
    return orders(run)


def losses(run: Path) -> dict[int, float]:
    return {int(record["step"]): record["loss"] for record in read_metrics(run) if "loss" in record}


def orders(run: Path) -> dict[int, str]:
    """Return fingerprints of the next 100 batches by step, at start and at each resumption."""
    return {
        int(record["step"]): str(record["detail"])
        for record in read_metrics(run)
        if record.get("event") == "order"
    }


def log_of(run: Path) -> str:
    return "".join(path.read_text() for path in sorted(run.parent.glob(f"{run.name}*.log")))


def until(condition: Callable[[], object], run: Path) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, log_of(run)
        time.sleep(0.002)


def assert_on_track(run: Path, reference: dict[int, float]) -> None:
    assert losses(run) == pytest.approx(reference, rel=TOLERANCE), log_of(run)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_ranks_then_one_then_four(
    launcher: Launcher,
    reference: dict[int, float],
    reference_orders: dict[int, str],
    tmp_path: Path,
    parallel: str,
) -> None:
    """Losses and the next 100 batches are those of one process."""
    run = tmp_path / "run"
    for steps, num_ranks in ((4, 2), (8, 1), (STEPS, 4)):
        pids = launcher.start(run, num_ranks, steps=steps, parallel=parallel)
        assert launcher.wait(pids) == [0] * num_ranks, log_of(run)
        shards = list(find_checkpoints(run)[-1].glob("shard-*"))
        assert len(shards) == num_ranks  # every rank writes its part
    assert_on_track(run, reference)
    assert orders(run) == reference_orders


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_all_ranks_are_killed(
    launcher: Launcher, reference: dict[int, float], tmp_path: Path, num_ranks: int
) -> None:
    run = tmp_path / "run"
    pids = launcher.start(run, num_ranks)
    until(lambda: find_checkpoints(run), run)  # the next save waits for it: not the end yet
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert launcher.wait(pids) == [-signal.SIGKILL] * num_ranks
    assert max(losses(run)) < STEPS
    assert launcher.wait(launcher.start(run, num_ranks)) == [0] * num_ranks
    assert "resuming after step" in log_of(run)
    assert_on_track(run, reference)


@pytest.mark.parametrize("num_killed", [1, 2])
def test_killed_while_a_checkpoint_is_written(
    launcher: Launcher, reference: dict[int, float], tmp_path: Path, num_killed: int
) -> None:
    """Of two ranks, one (the writer's rank 0 survives it) or both die in the second save."""
    run = tmp_path / "run"
    unfinished = run / "checkpoints" / ".step-00000006.tmp"
    pids = launcher.start(run, 2)
    until(unfinished.exists, run)
    for pid in pids[-num_killed:]:
        os.kill(pid, signal.SIGKILL)
    codes = launcher.wait(pids)
    assert codes[1] == -signal.SIGKILL
    assert codes[0] != 0
    assert unfinished.exists(), "the write was over before the signal came"
    assert [path.name for path in find_checkpoints(run)] == ["step-00000003"]
    assert launcher.wait(launcher.start(run, 2)) == [0, 0], log_of(run)
    assert "resuming after step 3" in log_of(run)
    assert not unfinished.exists()
    assert_on_track(run, reference)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130)]
)
def test_one_rank_is_asked_to_stop(
    launcher: Launcher,
    reference: dict[int, float],
    tmp_path: Path,
    number: signal.Signals,
    code: int,
) -> None:
    """All ranks save at the same step and leave with the same code."""
    run = tmp_path / "run"
    pids = launcher.start(run, 2)
    until(lambda: len(losses(run)) >= 4, run)
    os.kill(pids[1], number)
    assert launcher.wait(pids) == [code, code], log_of(run)
    last = max(losses(run))
    assert last < STEPS
    assert find_checkpoints(run)[-1].name == f"step-{last:08d}"
    assert launcher.wait(launcher.start(run)) == [0]
    assert f"resuming after step {last}" in log_of(run)
    assert_on_track(run, reference)


def test_a_disk_that_is_full(launcher: Launcher, tmp_path: Path) -> None:
    """A file system with room for one checkpoint, not for two."""
    run = tmp_path / "run"
    run.mkdir()
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=1500k none {run}"
    if subprocess.run([*inside, mount], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small file system")
    train = shlex.join([sys.executable, "-m", "jupyt5_training.cli", *launcher.argv(run)])
    script = f"{mount} && {train}; code=$?; ls -A {run}/checkpoints; exit $code"
    result = subprocess.run([*inside, script], capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    assert "No space left on device" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout.split() == ["step-00000003"]


def test_torchrun_replaces_a_killed_rank_and_passes_the_signal_on(
    launcher: Launcher, reference: dict[int, float], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    elastic = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--max-restarts", "2"]
    signals = ["--signals-to-handle", "SIGTERM,SIGINT,SIGUSR1", "--shutdown-timeout", "100"]
    command = ["torchrun", "--nnodes", "1", "--nproc-per-node", "2", *elastic, *signals]
    command += ["-m", "jupyt5_training.cli", *launcher.argv(run, steps=1000)]
    # Else restarted ranks find the addresses of those that died: pytorch issue 135712.
    env = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with run.with_suffix(".0.log").open("wb") as log:
        agent = subprocess.Popen(command, stdout=log, stderr=log, env=env)
    try:
        until(lambda: find_checkpoints(run), run)
        os.kill(children(agent.pid)[-1], signal.SIGKILL)
        until(lambda: "resuming after step" in log_of(run), run)
        until(lambda: len(losses(run)) >= STEPS, run)
        agent.send_signal(signal.SIGUSR1)
        agent.wait(PATIENCE_S)
    finally:
        left = children(agent.pid) if agent.poll() is None else []
        for pid in [agent.pid, *left]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        agent.wait()
    last = max(losses(run))
    assert last < 1000, log_of(run)
    assert find_checkpoints(run)[-1].name == f"step-{last:08d}"
    assert {step: losses(run)[step] for step in reference} == pytest.approx(
        reference, rel=TOLERANCE
    )
    assert launcher.wait(launcher.start(run, steps=last + 2)) == [0]
    assert max(losses(run)) == last + 2


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return sorted(int(word) for word in path.read_text().split())
