"""The one place that knows datatrove: it runs a stage locally, on a Ray cluster or under Slurm.

A stage's items are dealt out to a fixed number of tasks; workers take tasks. Since items have
markers of their own, neither the number of tasks nor that of workers nor the engine matters to
the result, and datatrove's own list of completed tasks is not used.

datatrove's local executor waits for ever when a worker is killed (say, for want of memory), so
its tasks are run by ``workers.run_jobs`` instead.
"""
# datatrove comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import logging
import math
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import dill
import orjson
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.executor.slurm import SlurmPipelineExecutor
from dill import CONTENTS_FMODE
from loguru import logger as datatrove_logger

from jupyt5.console import progress
from jupyt5.errors import CorpusError, Jupyt5Error, UsageError
from jupyt5.files import write_atomic
from jupyt5_corpus.layout import Layout
from jupyt5_corpus.stages import Stage
from jupyt5_corpus.workers import run_jobs

__all__ = ["Engine", "LocalEngine", "RayEngine", "SlurmEngine"]

_MAX_TASKS = 1_000
"""Tasks of a stage unless told otherwise: as many as items, up to this."""

_MAX_ARRAY = 1_001
"""Jobs in a Slurm array; the limit of many clusters (MaxArraySize)."""

_RAY_GB_A_TASK = 1

logger = logging.getLogger(__name__)


class Engine(Protocol):
    """Runs stages."""

    def run(self, stage: Stage) -> None:
        """Do all items of a stage that are not done.

        Raises:
            CorpusError: If an item fails or a worker is killed.
            OSError: If something cannot be read or written.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEngine:
    """Processes of this machine; with one worker everything happens in this process.

    Attributes:
        workers: Processes.
        tasks: Tasks of a stage; None for one an item, up to 1,000.
    """

    workers: int = 1
    tasks: int | None = None

    def run(self, stage: Stage) -> None:
        """See ``Engine``."""
        if not stage.missing():
            return
        num_tasks = _num_tasks(stage, self.tasks)
        executor = _LocalExecutor(stage, tasks=num_tasks, workers=self.workers)
        executor.run()


@dataclass(frozen=True, slots=True, kw_only=True)
class RayEngine:
    """The Ray cluster of ``RAY_ADDRESS``, else a new local one of ``workers`` processors.

    The folder to make must be one that all machines of the cluster see.
    """

    workers: int = 1
    tasks: int | None = None

    def run(self, stage: Stage) -> None:
        """See ``Engine``."""
        if not stage.missing():
            return
        if stage.num_items == 1:
            # Not worth the start of a worker, which takes seconds.
            LocalEngine().run(stage)
            return
        try:
            from datatrove.executor.ray import RayPipelineExecutor
        except ModuleNotFoundError as exc:
            message = "--engine ray needs Ray. Install it with `pip install 'jupyt5[ray]'`."
            raise UsageError(message) from exc
        self._connect()
        datatrove_logger.disable("datatrove")
        _failures(stage).unlink(missing_ok=True)
        executor = RayPipelineExecutor(
            pipeline=[_Share(stage, reports=True)],
            tasks=_num_tasks(stage, self.tasks),
            workers=self.workers,
            logging_dir=str(stage.layout.logs(stage.name)),
            skip_completed=False,
            mem_per_cpu_gb=_RAY_GB_A_TASK,
        )
        executor.run()
        # Ray's executor logs failures and ends as if all were well.
        if stage.missing():
            raise _failure_of(stage)

    def _connect(self) -> None:
        try:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            import ray
        except ModuleNotFoundError as exc:
            message = "--engine ray needs Ray. Install it with `pip install 'jupyt5[ray]'`."
            raise UsageError(message) from exc
        if ray.is_initialized():
            return
        try:
            ray.init(
                num_cpus=None if os.environ.get("RAY_ADDRESS") else self.workers,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except Exception as exc:  # Ray raises bare ones
            message = (
                f"Ray does not start: {' '.join(str(exc).split())} "
                "Check RAY_ADDRESS and the load of this machine, then run the command again."
            )
            raise CorpusError(message) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmEngine:
    """Job arrays that wait for each other; ``submit`` returns when they are queued.

    Attributes:
        workers: Tasks that run at the same time.
        tasks: As in ``LocalEngine``.
        sbatch: Options of sbatch without their dashes; ``partition`` and ``time`` must be there.
        is_dry_run: Whether scripts are written but not handed in.
    """

    workers: int = 1
    tasks: int | None = None
    sbatch: Mapping[str, str] = field(default_factory=dict[str, str])
    is_dry_run: bool = False

    def check(self) -> None:
        """Check options and machine.

        Raises:
            UsageError: If an option is missing or there is no sbatch here.
        """
        for name in ("partition", "time"):
            if name not in self.sbatch:
                message = f"--engine slurm needs --sbatch {name}=VALUE."
                raise UsageError(message)
        if not self.is_dry_run and shutil.which("sbatch") is None:
            message = (
                "There is no sbatch on this machine. Run the command on a login node of the "
                "cluster, or add --dry-run to write the job scripts only."
            )
            raise UsageError(message)

    def submit(
        self, stages: Sequence[Stage], close: Callable[[Layout], object], jobs: Path
    ) -> Path:
        """Write the job scripts and a script that hands them in, and run it.

        Args:
            stages: In order; those without items are left out.
            close: What to do after the last one.
            jobs: Folder for scripts and logs, outside of the build's own.

        Returns:
            The script that hands the jobs in.

        Raises:
            CorpusError: If Slurm refuses a job.
        """
        lines = [
            "#!/bin/bash",
            "# Hands in the jobs of a build, each after the one before it.",
            "set -e",
        ]
        after = ""
        for stage in (each for each in stages if each.num_items):
            script = self._write_job(stage.name, _Share(stage), _num_tasks(stage, self.tasks), jobs)
            lines.append(_submission(stage.name, script, after))
            after = stage.name
        script = self._write_job("close", _Close(close, stages[0].layout), 1, jobs)
        lines += [_submission("close", script, after), 'echo "$close"', ""]
        submit_path = jobs / "submit.sh"
        write_atomic(submit_path, "\n".join(lines))
        if not self.is_dry_run:
            self._hand_in(submit_path)
        return submit_path

    def _write_job(self, name: str, step: "_Share | _Close", num_tasks: int, jobs: Path) -> Path:
        executor = _SlurmExecutor(
            pipeline=[step],
            tasks=num_tasks,
            workers=self.workers,
            time=self.sbatch["time"],
            partition=self.sbatch["partition"],
            sbatch_args=dict(self.sbatch),
            qos=self.sbatch.get("qos", ""),
            job_name=f"jupyt5-corpus-{name}",
            env_command=f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH",
            logging_dir=str(jobs / name),
            slurm_logs_folder=str(jobs / name / "slurm_logs"),
            skip_completed=False,
            max_array_size=_MAX_ARRAY,
            tasks_per_job=math.ceil(num_tasks / _MAX_ARRAY),
        )
        executor.write_job()
        return jobs / name / "launch_script.slurm"

    def _hand_in(self, submit_path: Path) -> None:
        try:
            result = subprocess.run(
                ["bash", str(submit_path)], check=True, capture_output=True, text=True
            )
        except subprocess.CalledProcessError as exc:
            message = f"Slurm refused a job of {submit_path}: {exc.stderr.strip()}"
            raise CorpusError(message) from exc
        logger.info("Handed in; the last job is %s.", result.stdout.strip())


@dataclass(frozen=True)
class _Share:
    """One task's share of a stage, in the form of a datatrove pipeline step."""

    stage: Stage
    reports: bool = False

    def __call__(self, _data: object, rank: int, world_size: int) -> None:
        try:
            for item_idx in range(rank, self.stage.num_items, world_size):
                self.stage.run_item(item_idx)
        except Exception as exc:
            if self.reports:
                is_ours = isinstance(exc, Jupyt5Error | OSError)
                message = str(exc) if is_ours else f"{type(exc).__name__}: {exc}"
                write_atomic(_failures(self.stage), orjson.dumps({"message": message}))
            raise


@dataclass(frozen=True)
class _Close:
    """The end of a build, in the form of a datatrove pipeline step."""

    close: Callable[[Layout], object]
    layout: Layout

    def __call__(self, _data: object, _rank: int, _world_size: int) -> None:
        self.close(self.layout)


class _LocalExecutor(LocalPipelineExecutor):
    """datatrove's local executor with workers that cannot be lost unnoticed."""

    def __init__(self, stage: Stage, *, tasks: int, workers: int) -> None:
        logs = str(stage.layout.logs(stage.name))
        super().__init__([_Share(stage)], tasks, workers, logging_dir=logs, skip_completed=False)
        self._description = stage.name.capitalize()

    def run(self) -> None:
        done = run_jobs(self._run_quietly, range(self.tasks), self.workers)
        for _ in progress(done, desc=self._description, total=self.tasks, unit="task"):
            pass

    def _run_quietly(self, rank: int) -> None:
        # It would show its log, with a trace of every error, on stderr.
        datatrove_logger.disable("datatrove")
        self._run_for_rank(rank, local_rank=1)


class _SlurmExecutor(SlurmPipelineExecutor):
    """datatrove's Slurm executor, which writes its job instead of handing it in at once."""

    def write_job(self) -> None:
        """Write the pickled executor, its list of tasks and the job script."""
        num_jobs = math.ceil(self.tasks / self.tasks_per_job)
        with self.logging_dir.open("executor.pik", "wb") as stream:
            dill.dump(self, stream, fmode=CONTENTS_FMODE)
        with self.logging_dir.open("ranks_to_run.json", "wb") as stream:
            stream.write(orjson.dumps(list(range(self.tasks))))
        pickled = shlex.quote(str(self.logging_dir.resolve_paths("executor.pik")))
        script = self.get_launch_file_contents(
            self.get_sbatch_args(num_jobs), f"srun -l -n 1 launch_pickled_pipeline {pickled}"
        )
        with self.logging_dir.open("launch_script.slurm", "w") as stream:
            stream.write(script)


def _num_tasks(stage: Stage, tasks: int | None) -> int:
    return min(stage.num_items, tasks or _MAX_TASKS)


def _submission(name: str, script: Path, after: str) -> str:
    """Return the line that hands a job in and remembers its number."""
    wait = f"--dependency=afterok:${{{after}%%;*}} " if after else ""
    return f"{name}=$(sbatch --parsable {wait}{shlex.quote(str(script))})"


def _failures(stage: Stage) -> Path:
    return stage.layout.logs(stage.name).with_name(f"{stage.name}-failure.json")


def _failure_of(stage: Stage) -> CorpusError:
    path = _failures(stage)
    if path.is_file():
        return CorpusError(str(orjson.loads(path.read_bytes())["message"]))
    return CorpusError(
        f"The stage {stage.name} ended with {len(stage.missing())} items undone: workers were "
        "lost, perhaps for want of memory. Run the command again; what is done is not repeated."
    )
