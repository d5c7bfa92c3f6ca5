"""A run on a Ray cluster of two nodes gives the verdicts of a run here."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed (extra: ray)"
    ),
]

# In a process of its own: Ray leaves sockets and processes to the garbage collector.
# A node has 30 s to start, not always enough on a busy machine, and Ray has no setting for it.
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
for num_left in (2, 1, 0):
    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=1)
        cluster.add_node(num_cpus=1)
        break
    except Exception:
        cluster.shutdown()
        if not num_left:
            raise
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
NODES = "import ray; ray.init(log_to_driver=False); print(len(ray.nodes()))"
GOLD = "def add(a, b):\n    return a + b"
ANSWERS = (GOLD, "def add(a, b):\n    return 9", "import os\nos._exit(0)", "def add(a, b:")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout
        address = next((line.split()[1] for line in process.stdout if line[:7] == "address"), "")
        if not address:
            pytest.skip("Ray could not start a node within its 30 s, three times")
        yield address
        process.communicate("")


def test_verdicts_on_two_nodes_equal_those_here(
    cluster: str, write_set: Callable[..., Path], tmp_path: Path
):
    notebooks = {
        f"repo{idx}/n.ipynb": [
            ("code", "base = 1"),
            ("code", GOLD),
            ("code", f"assert add({idx}, 1) == {idx + 1}"),
        ]
        for idx in range(3)
    }
    problems = [
        {"task_id": f"T/{idx}", "notebook_path": path, "cell_index": 1}
        for idx, path in enumerate(notebooks)
    ]
    root = write_set(notebooks, problems)
    samples_path = tmp_path / "samples.jsonl"
    lines = [
        json.dumps({"task_id": problem["task_id"], "completion": answer}) + "\n"
        for problem in problems
        for answer in ANSWERS
    ]
    samples_path.write_text("".join(lines))

    environment = {**os.environ, "RAY_ADDRESS": cluster}

    def run(engine: str) -> Path:
        out = tmp_path / engine
        command = [str(Path(sys.executable).parent / "dsp-eval"), "run", "--problems", str(root)]
        command += ["--samples", str(samples_path), "-k", "1", "--workers", "2"]
        command += ["--engine", engine, "--out", str(out)]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        return out

    here, there = run("local"), run("ray")
    answer = subprocess.run(
        [sys.executable, "-c", NODES], env=environment, check=True, capture_output=True, text=True
    )
    assert answer.stdout.split()[-1] == "2"
    assert read_verdicts(there) == read_verdicts(here)
    assert len(read_verdicts(there)) == len(problems) * len(ANSWERS)
    assert (there / "results.json").read_bytes() == (here / "results.json").read_bytes()


def read_verdicts(run: Path) -> set[tuple[object, ...]]:
    lines = (run / "verdicts.jsonl").read_text().splitlines()
    found = map(json.loads, lines)
    return {(one["task_id"], one["sample_idx"], one["verdict"], one["message"]) for one in found}
