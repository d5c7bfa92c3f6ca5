# pyright: basic
"""``jupyt5-train mine``: the bundled model, trained on for some minutes on a person's notebooks.

The result is installed as ``jupyt5:mine`` only if it is better than the bundled model on notebooks
of theirs that it has not seen. Both are measured as they decode: read back from int8.
"""

import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from jupyt5.errors import UsageError
from jupyt5.files import sha256_file, write_atomic
from jupyt5.model.checkpoint import META_NAME, TOKENIZER_NAME, read_meta, write_meta
from jupyt5.model.export import export_ctranslate2
from jupyt5_training.arrays import load_arrays, load_data_tokenizer
from jupyt5_training.checkpoints import Progress, find_checkpoints
from jupyt5_training.distributed import Ranks
from jupyt5_training.evaluation import EvalConfig, measure_losses
from jupyt5_training.examples import ExampleMaker
from jupyt5_training.feed import prefetched
from jupyt5_training.installing import install_folder
from jupyt5_training.locks import locked
from jupyt5_training.models import load_weights
from jupyt5_training.own_notebooks import OwnNotebooks, read_own_notebooks
from jupyt5_training.prepare import PrepareConfig, write_data
from jupyt5_training.recipes import Recipe, find_recipe
from jupyt5_training.runs import load_job, run_recipe
from jupyt5_training.stopping import StopKind
from jupyt5_training.work_folder import clear_work, read_record, write_record

__all__ = ["MineConfig", "MineResult", "make_own_model"]

logger = logging.getLogger(__name__)

_MAX_EPOCHS = 4  # more make the model worse on what it has not seen
_NUM_TIMED_STEPS = 5
_NUM_SAVES = 10
_EVAL_TARGETS = 1024

_CARD = """# mine

JuPyT5's bundled model, trained on for {steps} steps on {notebooks} notebooks of its user.
Validation loss on {held_out} of their notebooks that it has not seen, nats a target id:
{before:.4f} before, {after:.4f} after.

It may repeat what stands in those notebooks, names, paths and passwords among it: think before
you give it to somebody.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MineConfig:
    """How to train.

    Attributes:
        start: Checkpoint folder to begin with: the bundled model.
        work: Folder for the run; it is gone on with if it was interrupted.
        target: Where the model is installed.
        minutes: About how long to train, loading and measuring left aside; less where more would
            only be learnt by heart.
        num_threads: CPU threads; 0 leaves torch's own choice.
    """

    start: Path
    work: Path
    target: Path
    minutes: float = 10.0
    num_threads: int = 0

    def __post_init__(self) -> None:
        """Check the time.

        Raises:
            UsageError: If it is not above 0.
        """
        if not self.minutes > 0:
            raise UsageError(f"--minutes {self.minutes:g} is no time. Give 10, for instance.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MineResult:
    """What came of it.

    Attributes:
        counts: What was read; see ``OwnNotebooks``.
        num_held_out: Notebooks that the losses are about.
        steps: Optimizer steps, those before an interruption included.
        loss_before: Validation loss of the bundled model, nats per target id.
        loss_after: The new model's.
        installed: Where it is; None if it is not better.
    """

    counts: dict[str, int]
    num_held_out: int
    steps: int
    loss_before: float
    loss_after: float
    installed: Path | None


def make_own_model(folders: Sequence[Path], config: MineConfig) -> MineResult:
    """Train the bundled model on the notebooks in some folders, and install it if it is better.

    Raises:
        TrainingError: If there is too little to learn from, if the work folder is somebody else's,
            or another process works in it.
        KeyboardInterrupt: After Ctrl-C; called again with the same notebooks, it goes on.
    """
    own = read_own_notebooks(folders)
    with locked(config.work):
        return _make(own, config)


def _make(own: OwnNotebooks, config: MineConfig) -> MineResult:
    data, run = config.work / "data", config.work / "run"
    recipe = _open_work(own, config)
    if not find_checkpoints(run):
        logger.info("%d steps, about %.3g minutes or less", recipe.steps, config.minutes)
    try:
        run_recipe(recipe, data, run, resume=bool(find_checkpoints(run)), init_from=config.start)
    except KeyboardInterrupt:
        logger.info("give the same command again to go on")
        raise
    exported = config.work / "int8"
    shutil.rmtree(exported, ignore_errors=True)
    export_ctranslate2(run / "model", exported, "int8")
    before, after = (_measure(folder, data, recipe) for folder in (config.start, exported))
    result = MineResult(
        counts=own.counts,
        num_held_out=sum(document.split == "validation" for document in own.documents),
        steps=recipe.steps,
        loss_before=before,
        loss_after=after,
        installed=config.target if after < before else None,
    )
    if result.installed:
        _describe(exported, result)
        install_folder(exported, config.target)
    clear_work(config.work)  # only now: until here, the same command would go on
    return result


def _open_work(own: OwnNotebooks, config: MineConfig) -> Recipe:
    """Prepare the work folder; return the recipe of the run that is, or will be, in it."""
    work = config.work
    key = {
        "notebooks_sha256": own.sha256,
        "start_sha256": _hash_start(config.start),
        "minutes": config.minutes,
    }
    record = read_record(work)
    steps = record.get("steps")
    if isinstance(steps, int) and record.items() >= key.items():
        logger.info("going on in %s", work)
        return _shape_recipe(config, steps)
    if record:
        logger.info("%s is of other notebooks or another time: starting anew", work)
        clear_work(work)
    write_record(work, {})
    write_data(
        lambda: iter(own.documents),
        work / "data",
        PrepareConfig(language="all"),
        tokenizer_path=config.start / TOKENIZER_NAME,
        manifest_sha256=lambda: own.sha256,
    )
    steps = _choose_steps(config)
    write_record(work, {**key, "steps": steps})
    return _shape_recipe(config, steps)


def _hash_start(start: Path) -> str:
    return sha256_file(start / META_NAME)


def _shape_recipe(config: MineConfig, steps: int) -> Recipe:
    recipe = find_recipe("mine")
    examples = replace(recipe.examples, formatter=read_meta(config.start).formatter)
    return replace(
        recipe,
        examples=examples,
        steps=steps,
        eval_every=steps,
        save_every=max(1, steps // _NUM_SAVES),
        num_threads=config.num_threads,
    )


def _choose_steps(config: MineConfig) -> int:
    """Time some steps, none of which changes anything; return how many fit into the time."""
    recipe = _shape_recipe(config, 1)
    job = load_job(
        recipe,
        config.work / "data",
        config.work / "run",
        ranks=Ranks(),
        init_from=config.start,
    )
    times_s: list[float] = []
    with prefetched(job.feed, Progress()) as steps:
        for step in islice(steps, _NUM_TIMED_STEPS):
            start_s = time.perf_counter()
            job.stepper.run(
                step,
                factor=0.0,
                stop_kind=lambda: StopKind.NONE,
                accept=lambda loss, norm: False,
            )
            times_s.append(time.perf_counter() - start_s)
    step_s = sum(times_s[1:]) / len(times_s[1:])  # the first one warms up
    most = _MAX_EPOCHS * len(job.feed.open_plan(0))
    return max(1, min(most, int(config.minutes * 60 / step_s)))


def _measure(folder: Path, data: Path, recipe: Recipe) -> float:
    examples = replace(recipe.examples, context_draw="fixed")
    tokenizer = load_data_tokenizer(data)
    maker = ExampleMaker(load_arrays(data, "validation"), tokenizer, examples)
    config = EvalConfig(num_targets=_EVAL_TARGETS, seed=recipe.seed)
    losses = measure_losses(load_weights(folder), maker, config, tokenizer=tokenizer)
    return losses.summarise()["validation_loss"]


def _describe(exported: Path, result: MineResult) -> None:
    meta = read_meta(exported)
    metrics = {
        **meta.metrics,
        "validation_loss": result.loss_after,
        "validation_loss_before": result.loss_before,
        "validation_notebooks": float(result.num_held_out),
    }
    write_meta(exported, replace(meta, metrics=metrics))
    card = _CARD.format(
        steps=result.steps,
        notebooks=result.counts["notebooks"] - result.num_held_out,
        held_out=result.num_held_out,
        before=result.loss_before,
        after=result.loss_after,
    )
    write_atomic(exported / "README.md", card)
