"""Engines: the same bytes from all of them, whatever the tasks and workers."""

import importlib.util
import os
import stat
import subprocess
import sys

import pytest

from jupyt5.errors import CorpusError, UsageError
from jupyt5_corpus.build import submit_build
from jupyt5_corpus.cli import main
from jupyt5_corpus.engines import LocalEngine, SlurmEngine
from jupyt5_corpus.holdout_lists import bundled_file
from jupyt5_corpus.recipe import load_recipe

# Not importorskip: Ray's libraries would then live on in the process of all other tests.
HAS_RAY = importlib.util.find_spec("ray") is not None
NEAR = "name: near\nsteps: [parse, holdout, overlap, exact_duplicates, near_duplicates]\n"
SBATCH = {"partition": "cpu", "time": "1:00:00"}

# A cluster of one machine: jobs run at once, in the order in which they are handed in.
COMMANDS = {
    "sbatch": """#!/bin/bash
echo "$@" >> "$CLUSTER/handed-in"
for script; do :; done
number=$(wc -l < "$CLUSTER/handed-in")
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' "$script")
for task in $(seq 0 "$last"); do
  SLURM_JOB_ID=$number SLURM_ARRAY_TASK_ID=$task SLURM_NODELIST=here \
    bash "$script" >> "$CLUSTER/log" 2>&1 || exit 1
done
echo "$number"
""",
    "srun": """#!/bin/bash
while [[ $1 == -* ]]; do [[ $1 == -n ]] && shift; shift; done
exec "$@"
""",
    "scontrol": "#!/bin/bash\necho here\n",
}


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "near.yaml"
    path.write_text(NEAR)
    return path


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    folder = tmp_path / "cluster"
    folder.mkdir()
    for name, script in COMMANDS.items():
        (folder / name).write_text(script)
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("CLUSTER", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_any_number_of_tasks_gives_the_same_bytes(shards, build, corpus, tmp_path, recipe, tasks):
    build(shards, out=tmp_path / "one", recipe=recipe)
    build(shards, out=tmp_path / "two", recipe=recipe, engine=LocalEngine(tasks=tasks))
    assert corpus.files(tmp_path / "one") == corpus.files(tmp_path / "two")


DYING = """
import os, signal
from pathlib import Path

def die_once(row, mark):
    if row.repo == "cat/notes" and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return row

STEPS = {"die_once": die_once}
RECIPE = {"name": "dying", "steps": ["parse", {"die_once": {"mark": MARK}}, "exact_duplicates"]}
"""


@pytest.mark.slow
def test_a_killed_worker_is_one_error_and_the_build_goes_on(shards, build, corpus, tmp_path):
    # datatrove's own executor would wait for the lost task for ever.
    path, mark = tmp_path / "dying.py", tmp_path / "mark"
    path.write_text(DYING.replace("MARK", repr(str(mark))))
    with pytest.raises(CorpusError, match="worker process was killed"):
        build(shards, recipe=path, holdout=None, engine=LocalEngine(workers=2))
    assert mark.exists()
    build(shards, recipe=path, holdout=None, engine=LocalEngine(workers=2))
    build(shards, out=tmp_path / "whole", recipe=path, holdout=None)
    assert corpus.files(tmp_path / "corpus") == corpus.files(tmp_path / "whole")


@pytest.mark.slow
def test_slurm_jobs_make_the_same_corpus(shards, build, corpus, tmp_path, recipe, cluster):
    build(shards, out=tmp_path / "one", recipe=recipe)
    loaded = load_recipe(str(recipe), holdout_files=[bundled_file()])
    out = tmp_path / "two"
    engine = SlurmEngine(workers=2, tasks=3, sbatch=SBATCH)
    submit_build([shards], out, recipe=loaded, engine=engine)
    assert corpus.files(tmp_path / "one") == corpus.files(out)
    handed_in = (cluster / "handed-in").read_text().splitlines()
    assert [line.split("/")[-2] for line in handed_in] == [
        "read",
        "bands",
        "plan",
        "finish",
        "close",
    ]
    # Each waits for the one before it.
    assert [line.split()[1] for line in handed_in[1:]] == [
        f"--dependency=afterok:{number}" for number in range(1, 5)
    ]
    assert not (tmp_path / "two.partial").exists()


def test_a_dry_run_writes_scripts_that_bash_can_read(shards, tmp_path, recipe, capsys):
    out = tmp_path / "corpus"
    options = ["--engine", "slurm", "--dry-run", "--tasks", "2", "--workers", "5"]
    options += ["--sbatch", "partition=cpu", "--sbatch", "time=8:00:00"]
    options += ["--sbatch", "mem-per-cpu=3G"]
    assert main(["build", str(shards), "--out", str(out), "--recipe", str(recipe), *options]) == 0
    jobs = tmp_path / "corpus.jobs"
    assert capsys.readouterr().out.strip() == str(jobs / "submit.sh")
    scripts = sorted(jobs.glob("*/launch_script.slurm"))
    assert [path.parent.name for path in scripts] == ["bands", "close", "finish", "plan", "read"]
    for path in [*scripts, jobs / "submit.sh"]:
        subprocess.run(["bash", "-n", str(path)], check=True)
    text = (jobs / "read" / "launch_script.slurm").read_text()
    for line in ("partition=cpu", "time=8:00:00", "mem-per-cpu=3G", "array=0-1%5"):
        assert f"#SBATCH --{line}\n" in text
    assert f"launch_pickled_pipeline {jobs}/read/executor.pik" in text
    assert not out.exists()


@pytest.mark.parametrize(
    ("sbatch", "problem"),
    [({"time": "1:00"}, "partition=VALUE"), (SBATCH, "no sbatch on this machine")],
)
def test_what_slurm_lacks_is_said_before_anything_is_written(
    shards, tmp_path, recipe, monkeypatch, sbatch, problem
):
    monkeypatch.setenv("PATH", "")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=problem):
        submit_build(
            [shards],
            tmp_path / "corpus",
            recipe=load_recipe(str(recipe)),
            engine=SlurmEngine(sbatch=sbatch),
        )
    assert sorted(tmp_path.iterdir()) == before


def test_a_job_that_slurm_refuses_is_one_error(shards, tmp_path, recipe, cluster):
    (cluster / "sbatch").write_text("#!/bin/bash\necho 'invalid partition' >&2\nexit 1\n")
    engine = SlurmEngine(sbatch=SBATCH)
    with pytest.raises(CorpusError, match="invalid partition"):
        submit_build([shards], tmp_path / "c", recipe=load_recipe(str(recipe)), engine=engine)


def run(shards, out, recipe, *options):
    """Build in a process of its own: Ray leaves threads and warnings behind."""
    # Archives that are given by name are units of their own.
    sources = map(str, sorted(shards.glob("*.tar.zst")))
    command = [sys.executable, "-m", "jupyt5_corpus.cli", "build", *sources, "--out", str(out)]
    return subprocess.run(
        [*command, "--recipe", str(recipe), *options],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed (extra: ray)")
def test_a_local_ray_cluster_makes_the_same_corpus(shards, corpus, tmp_path, recipe):
    assert run(shards, tmp_path / "one", recipe, "--workers", "1").returncode == 0
    result = run(
        shards, tmp_path / "two", recipe, "--engine", "ray", "--workers", "2", "--tasks", "2"
    )
    assert result.returncode == 0, result.stderr
    assert corpus.files(tmp_path / "one") == corpus.files(tmp_path / "two")


@pytest.mark.slow
@pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed (extra: ray)")
def test_what_fails_on_ray_is_one_clear_error(shards, tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "def bad(row):\n    raise ValueError(f'no: {row.path}')\n\n"
        "STEPS = {'bad': bad}\nRECIPE = {'name': 'own', 'steps': ['parse', 'holdout', 'bad']}\n"
    )
    result = run(
        shards, tmp_path / "two", path, "--engine", "ray", "--workers", "2", "--tasks", "2"
    )
    assert result.returncode == 1
    assert result.stderr.count("error: ") == 1
    # Which of the tasks fails first is not said.
    assert "Recipe own.py: step bad raises ValueError: no: o" in result.stderr
    assert "; notebook " in result.stderr
    assert not (tmp_path / "two").exists()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed (extra: ray)")
def test_a_ray_that_does_not_start_is_one_error(shards, tmp_path, recipe):
    script = (
        "import sys, ray\n"
        "def fail(**_options):\n"
        "    raise Exception('The current node timed out\\nduring startup.')\n"
        "ray.init = fail\n"
        "from jupyt5_corpus.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    options = ["--engine", "ray", "--recipe", str(recipe), "--out", str(tmp_path / "out")]
    sources = map(str, sorted(shards.glob("*.tar.zst")))
    result = subprocess.run(
        [sys.executable, "-c", script, "build", *sources, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "Ray does not start: The current node timed out during startup." in result.stderr
    assert "Traceback" not in result.stderr
