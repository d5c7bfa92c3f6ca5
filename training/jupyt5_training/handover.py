"""A small ``dsp-eval`` of the weights of a step, by files, while training goes on.

Training writes a checkpoint folder; ``jupyt5 export`` and ``dsp-eval``, each in a process of its
own, on the CPU, do the rest. ``RUN/dsp/step-00001000/`` keeps ``results.json``, the report and
``log.txt``; the weights are removed when they have served.
"""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyt5.errors import TrainingError
from jupyt5.files import atomic_folder

__all__ = ["DspHandover", "HandoverConfig"]

logger = logging.getLogger(__name__)

_POLL_S = 0.2
_END_S = 20.0  # dsp-eval ends its samples before it ends itself


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverConfig:
    """What is run.

    Attributes:
        problems: Folder with ``problems.jsonl``.
        limit: Only the first so many problems; 0 for all.
        num_samples: Hypotheses a problem; pass@1 and, from 10 on, pass@10 are reported.
        timeout_s: Processor seconds of a hypothesis and its grading cells.
        sandbox: As for ``dsp-eval``; ``auto`` refuses where there is none.
    """

    problems: Path
    limit: int = 20
    num_samples: int = 10
    timeout_s: float = 10.0
    sandbox: str = "auto"


class DspHandover:
    """Runs evaluations one after the other; what a stopped run left unfinished is taken up again.

    Not for several threads, and for the main rank only. If a new one comes while another is still
    waiting, the waiting one is dropped: evaluations never fall behind the training.

    Args:
        run: Folder of the training run.
        config: What is run.

    Raises:
        TrainingError: If ``dsp-eval`` or the problems are missing.
    """

    def __init__(self, run: Path, config: HandoverConfig) -> None:
        self._folder = run / "dsp"
        self._config = config
        self._commands = {name: _find_command(name) for name in ("jupyt5", "dsp-eval")}
        if not (config.problems / "problems.jsonl").is_file():
            message = f"{config.problems} has no problems.jsonl. Give a folder of DSP problems."
            raise TrainingError(message)
        self._process: subprocess.Popen[bytes] | None = None
        self._current: Path | None = None
        self._todo: list[list[str]] = []
        unfinished = sorted(path.parent for path in self._folder.glob("step-*/model"))
        self._waiting = unfinished[-1] if unfinished else None
        for path in unfinished[:-1]:
            _remove_weights(path)

    def start(self, step: int, save: Callable[[Path], None]) -> None:
        """Evaluate the weights of a step; returns once they are saved.

        Args:
            step: Optimizer step.
            save: Writes a checkpoint folder with torch weights into the (empty) folder it gets.
        """
        job = self._folder / f"step-{step:08d}"
        if job in {self._current, self._waiting}:
            return
        if self._waiting:
            logger.info("dsp-eval of %s is left out: a newer one is there", self._waiting.name)
            shutil.rmtree(self._waiting)
        shutil.rmtree(job, ignore_errors=True)
        with atomic_folder(job / "model") as folder:
            save(folder)
        self._waiting = job
        self._advance()

    def poll(self) -> list[dict[str, float]]:
        """Return the records of evaluations that have finished; never waits.

        A record has the ``step`` of the weights, ``dsp_pass_at_1`` and so on over valid problems,
        their 95 % interval (``…_low``, ``…_high``), ``dsp_num_valid`` and ``dsp_num_samples``.
        """
        records: list[dict[str, float]] = []
        while self._process and (code := self._process.poll()) is not None:
            self._process = None
            job = self._current
            assert job is not None  # whatever runs is of a job
            if code:
                logger.warning("dsp-eval of %s failed: %s", job.name, _last_line(job / "log.txt"))
                self._todo = []
            elif not self._todo:
                records.append(_read_record(job))
            if not self._todo:
                _remove_weights(job)
                self._current = None
            self._advance()
        if not self._process:
            self._advance()
        return records

    def finish(self) -> list[dict[str, float]]:
        """Wait for all that was started and return its records."""
        records = self.poll()
        while self._process:
            time.sleep(_POLL_S)
            records += self.poll()
        return records

    def close(self) -> None:
        """End what is running; the next ``DspHandover`` of the run takes it up again."""
        if self._process:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process = None

    def _advance(self) -> None:
        """Start the next command, if none is running and there is one."""
        if self._process:
            return
        if not self._todo and self._waiting:
            self._current, self._waiting = self._waiting, None
            self._todo = self._list_commands(self._current)
        if not self._todo or not self._current:
            return
        with (self._current / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                self._todo.pop(0),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A GPU is the training's own; Ctrl-C is too.
                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
                start_new_session=True,
            )

    def _list_commands(self, job: Path) -> list[list[str]]:
        config = self._config
        validation = self._folder / "validation.jsonl"
        judging = ["--timeout-s", str(config.timeout_s), "--sandbox", config.sandbox]
        judging += ["--workers", "1", *(["--limit", str(config.limit)] if config.limit else [])]
        ks = [str(k) for k in (1, 10) if k <= config.num_samples]
        model, int8 = str(job / "model"), str(job / "int8")
        shutil.rmtree(int8, ignore_errors=True)
        export = [*self._commands["jupyt5"], "export", model, "--out", int8]
        dsp_eval = self._commands["dsp-eval"]
        validate = [*dsp_eval, "validate", str(config.problems), "--out", str(validation)]
        grade = [*dsp_eval, "run", "--problems", str(config.problems), "--provider"]
        grade += [f"jupyt5:{int8}", "-n", str(config.num_samples), "-k", ",".join(ks)]
        grade += ["--validation", str(validation), "--out", str(job / "run")]
        return [export, [*validate, *judging], [*grade, *judging]]


def _find_command(name: str) -> list[str]:
    """The command of this environment, at low priority where that can be said."""
    own = Path(sys.executable).with_name(name)
    found = str(own) if own.is_file() else shutil.which(name)
    if not found:
        message = f"{name} is not installed here. Install it with: pip install 'jupyt5[dsp]'"
        raise TrainingError(message)
    return ["nice", "-n", "10", found] if shutil.which("nice") else [found]


def _read_record(job: Path) -> dict[str, float]:
    results: dict[str, Any] = json.loads((job / "run" / "results.json").read_text("utf-8"))
    record: dict[str, float] = {"step": int(job.name.removeprefix("step-"))}
    for k, value in results["pass_at_k"]["valid"].items():
        if value is None:
            continue
        record[f"dsp_pass_at_{k}"] = value
        interval: Sequence[float] | None = results["ci95"]["valid"].get(k)
        if interval:
            record[f"dsp_pass_at_{k}_low"], record[f"dsp_pass_at_{k}_high"] = interval
    record["dsp_num_valid"] = results["num_valid"]
    record["dsp_num_samples"] = results["num_samples"]
    return record


def _remove_weights(job: Path) -> None:
    for name in ("model", "int8"):
        shutil.rmtree(job / name, ignore_errors=True)


def _last_line(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").strip().splitlines()
    return f"{lines[-1] if lines else 'it said nothing'} (see {path})"
