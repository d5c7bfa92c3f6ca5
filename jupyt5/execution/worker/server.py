"""Serves one notebook: runs its cells once and, at each problem, a process for every sample.

Talks JSON lines: one job on descriptor 0, then records on descriptor 1. Two ways of running:
``fork`` runs the context cells here and forks each sample from the state they left; ``kernel``
forks each sample from a state in which no cell has run, and it runs the context cells itself.
Programs have no context cells and bring their own: one worker serves many problems.
"""

import json
import os
import re
import sys

from . import hazards, linux, manager, program, sample
from . import shell as shells
from .recorder import Recorder
from .walls import Walls

__all__ = ["serve"]

_SEEDED = re.compile(r"\b(?:numpy|pandas|scipy|sklearn|matplotlib|seaborn|statsmodels|torch|np)\b")


def serve():
    """Do one job; returns the exit code."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    _Server(_read_job(), channel).run()
    channel.flush()
    os._exit(0)


def _read_job():
    # A function of its own: a stream in a frame of the samples would keep what it has read.
    with os.fdopen(os.dup(0), "r", encoding="utf-8") as stream:
        job = json.loads(stream.readline())
    _silence()
    return job


class _Server:
    def __init__(self, job, channel):
        self._job = job
        self._channel = channel
        self._limits = job["limits"]
        self._sources = {idx: source for idx, source in job["cells"]}
        self._walls = Walls(**job["walls"]) if job.get("walls") else None
        if self._walls:
            self._walls.build()
        os.environ.clear()
        os.environ.update(job["environment"])
        os.chdir(job["folder"])
        self._runs_as = job.get("runs_as", "notebook")
        self._shell = _make_shell(self._runs_as)
        self._tell("started", python=sys.version.split()[0])
        if any(_SEEDED.search(source) for source in self._sources.values()):
            _import_quietly("numpy.random")
        for name in job.get("preload", ()):
            _import_quietly(name)
        sample.seed_all(job["seed"])
        self._tasks = {task["cell_idx"]: task for task in job["tasks"]}
        self._failed = []
        self._recorder = Recorder(job["work"]) if job.get("records_files") else None
        self._baseline = hazards.Baseline()

    def run(self):
        """Do the job's samples, then say so."""
        if self._job["mode"] == "kernel":
            for task in self._job["tasks"]:
                self._run_cold(task)
        elif self._runs_as != "notebook":
            for task in self._job["tasks"]:
                if task["samples"]:
                    self._run_task(task)
        else:
            self._run_forked()
        opened = self._recorder.list_paths() if self._recorder else []
        self._tell("done", opened=opened)

    def _run_forked(self):
        last = max((max(task["grading"]) for task in self._job["tasks"]), default=-1)
        # No cell's text in a local name: this is a frame of the samples, too.
        for idx in list(self._sources):
            if idx > last:
                break
            task = self._tasks.get(idx)
            if task is not None and task["samples"]:
                if self._failed and not task["forgives"]:
                    self._tell("blocked", task=task["name"])
                else:
                    self._run_task(task)
            self._run_context(idx)

    def _run_context(self, idx):
        self._tell("begin", cell_idx=idx)
        error, wall_s = shells.run_cell(self._shell, self._sources[idx])
        refused, self._shell.refused = self._shell.refused, []
        if error is not None:
            self._failed.append(idx)
        self._tell("cell", cell_idx=idx, error=error, wall_s=wall_s, refused=refused)

    def _run_task(self, task):
        self._prepare_imports(task)
        hazards.settle()
        reasons = hazards.find_hazards(self._baseline)
        if reasons and not task["forced"]:
            self._tell("unsafe", task=task["name"], reasons=sorted(set(reasons)))
            return
        seeds = sample.Seeds()
        plan = self._make_plan(task)
        for entry in task["samples"]:

            def live(pipes, entry=entry):
                def enter():
                    self._enter()
                    hazards.reopen_files(self._baseline)
                    seeds.restore(entry.get("seed"))
                    sample.equip(entry)
                    return plan

                self._live(entry, pipes, enter)

            # Kept in no name, for the next sample would inherit it.
            self._tell_sample(task, entry, manager.run_sample(live, self._limits, self._walls))

    def _run_cold(self, task):
        seeds = sample.Seeds()
        for entry in task["samples"]:

            def live(pipes, entry=entry):
                def enter():
                    self._enter()
                    seeds.restore(None)
                    sample.equip(entry)
                    return self._catch_up(task, entry)

                self._live(entry, pipes, enter)

            self._tell_sample(
                task, entry, manager.run_sample(live, self._limits, self._walls, cold=True)
            )

    def _catch_up(self, task, entry):
        """Run the context cells in the sample's own process."""
        for idx, source in self._job["cells"]:
            if idx >= task["cell_idx"]:
                break
            error, wall_s = shells.run_cell(self._shell, source)
            sample.tell_context(idx, error, wall_s, is_last=bool(error and not task["forgives"]))
        self._prepare_imports(task)
        if entry.get("seed") is not None:
            sample.seed_all(entry["seed"])
        return self._make_plan(task)

    def _make_plan(self, task):
        return sample.Plan(self._shell, task, self._sources_of(task), self._limits)

    def _sources_of(self, task):
        return dict(task["cells"]) if task.get("cells") else self._sources

    def _live(self, entry, pipes, enter):
        def enter_alone():
            plan = enter()
            self._forget()
            return plan

        walled, splits = self._walls is not None, self._runs_as != "notebook"
        sample.live(entry["source"], pipes, enter_alone, filtered=walled, splits=splits)

    def _forget(self):
        """Empty, in a sample's process, what it could copy: other samples and references.

        In place: frames, closures and iterators of this process hold the same lists.
        """
        for task in self._job["tasks"]:
            for entry in task["samples"]:
                entry.clear()
            task["samples"].clear()
            task.clear()
        for cell in self._job["cells"]:
            cell.clear()
        self._sources.clear()
        self._job.clear()

    def _enter(self):
        os.close(self._channel.fileno())
        if self._recorder:
            self._recorder.stop()
        if self._walls:
            self._walls.enter_sample()
        elif self._job.get("copy_to"):
            sample.copy_work_folder(self._job["copy_to"])

    def _prepare_imports(self, task):
        """Import what grading cells import, before a sample can put something else in its way."""
        sources = self._sources_of(task)
        for idx in task["grading"]:
            for name in sample.find_imports(self._shell, sources.get(idx, "")):
                _import_quietly(name)

    def _tell_sample(self, task, entry, found):
        self._tell("sample", task=task["name"], key=entry["key"], **found)

    def _tell(self, kind, **fields):
        self._channel.write(json.dumps(dict(fields, kind=kind), default=str) + "\n")
        self._channel.flush()


def _make_shell(runs_as):
    if runs_as != "notebook":
        return program.make_program(runs_as)
    from . import ipython_shell

    return ipython_shell.make_shell()


def _import_quietly(name):
    try:
        __import__(name)
    except BaseException:
        return


def _silence():
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nothing, fd)
    os.close(nothing)
    linux.set_parent_death_signal(9)
