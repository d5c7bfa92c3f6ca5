"""Full run configurations by name, and ``--set key=value`` on top of them."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from jupyt5.errors import UsageError
from jupyt5.model.checkpoint import FormatterSettings
from jupyt5.model.presets import ModelShape, find_preset
from jupyt5_training.examples import ExampleConfig
from jupyt5_training.guard import GuardConfig

__all__ = ["RECIPES", "OptimizerConfig", "Recipe", "apply_settings", "find_recipe"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """The optimizer and its learning rate over the steps, see ``schedule.rate_factor``.

    Betas, epsilon and weight decay are PyMT5's (https://arxiv.org/abs/2010.03150).

    Attributes:
        name: ``adamw``, or ``muon`` for the matrices inside the layers and AdamW for the rest.
        peak_lr: AdamW's learning rate at the end of the warm-up.
        muon_lr: Muon's; not used by ``adamw``.
        schedule: ``inverse-sqrt``, ``cosine`` or ``constant``.
        warmup_steps: Steps from 0 to the peak.
        cooldown_steps: Last steps of the run, in which the rate falls to 0 in a line; 0 for none.
        decay_every: With ``constant``: such a fall before every multiple of so many steps; 0: only
            at the end.
        muon_momentum: Muon's decay of the gradients.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        eps: Added to the root of the second moment.
        weight_decay: Decoupled, on matrices only.
        max_grad_norm: Gradients are scaled down to this norm.
    """

    name: str = "adamw"
    peak_lr: float = 1e-3
    muon_lr: float = 1e-2
    schedule: str = "inverse-sqrt"
    warmup_steps: int = 400
    cooldown_steps: int = 0
    decay_every: int = 0
    muon_momentum: float = 0.95
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-6
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A whole training run.

    Attributes:
        name: Recipe and model name.
        model: Sizes; the vocabulary size comes from the prepared data.
        examples: Formatter settings and cutting rates.
        optimizer: AdamW and its schedule.
        steps: Optimizer steps in all.
        epochs: If above 0, the run has as many steps as so many passes over the targets, whatever
            ``steps`` says.
        batch_tokens: Source and target ids of a micro-batch, padding included.
        micro_batches: Micro-batches of a step; the ranks of a run share them, so their number
            divides it.
        markdown_target_rate: Share of the Markdown cells that are targets in an epoch.
        label_smoothing: Probability that the training loss spreads over all ids; the losses in the
            log are without it.
        ema_decay: Of a moving average of the weights, evaluated and exported in their place; 0 for
            none.
        compile: Whether torch compiles the model; pays on GPUs.
        guard: When a step is skipped, or the run goes back.
        eval_every: Steps between validations.
        eval_targets: Validation targets, drawn once from the seed.
        eval_decoded: Held-out code cells that are decoded for exact match and CodeBLEU; 0 for none.
        dsp_every: Steps between small runs of dsp-eval; 0 for none.
        dsp_limit: Problems of such a run; 0 for all.
        dsp_samples: Hypotheses a problem.
        save_every: Steps between checkpoints.
        keep_checkpoints: Newest checkpoints kept.
        seed: Of weights, order, cuts and dropout.
        num_threads: CPU threads; 0 leaves torch's own choice.
        precision: ``float32``; ``bfloat16`` for matrix products (weights stay float32), which pays
            on GPUs and on CPUs with AMX, and is far slower on other CPUs; ``float16``, which scales
            the loss, for GPUs before Ampere.
        parallel: What several ranks share: ``ddp``, only the batches; ``fsdp``, the weights too.
    """

    name: str
    model: ModelShape
    examples: ExampleConfig
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    steps: int
    epochs: int = 0
    batch_tokens: int
    micro_batches: int = 1
    markdown_target_rate: float = 1.0
    label_smoothing: float = 0.0
    ema_decay: float = 0.0
    compile: bool = False
    guard: GuardConfig = field(default_factory=GuardConfig)
    eval_every: int = 500
    eval_targets: int = 512
    eval_decoded: int = 0
    dsp_every: int = 0
    dsp_limit: int = 20
    dsp_samples: int = 10
    save_every: int = 500
    keep_checkpoints: int = 2
    seed: int = 0
    num_threads: int = 0
    precision: str = "float32"
    parallel: str = "ddp"


def debug() -> Recipe:
    """Return a run of under 30 s on two cores that goes through every part."""
    return Recipe(
        name="debug",
        model=find_preset("debug"),
        examples=ExampleConfig(
            formatter=FormatterSettings(source_budget_tokens=128, max_target_tokens=64)
        ),
        optimizer=OptimizerConfig(peak_lr=3e-3, warmup_steps=10),
        steps=60,
        batch_tokens=2048,
        eval_every=30,
        eval_targets=64,
        save_every=30,
    )


def nano() -> Recipe:
    """Return the bundled model's run: one CPU core, some hours.

    The number of context cells and the following cell are drawn at random, so that one model serves
    the paper's four settings. The rate is constant up to a short decay at the end: with more
    ``steps`` the run goes on from any checkpoint before the decay.
    """
    return Recipe(
        name="nano",
        model=find_preset("nano"),
        examples=ExampleConfig(
            formatter=FormatterSettings(source_budget_tokens=256, max_target_tokens=128),
            context_draw="random",
            following_rate=0.6,
            test_target_weight=6.0,
        ),
        optimizer=OptimizerConfig(
            name="muon",
            muon_lr=2e-3,
            peak_lr=2e-3,
            schedule="constant",
            warmup_steps=200,
            cooldown_steps=2500,
        ),
        steps=10_000,
        batch_tokens=4096,
        markdown_target_rate=0.1,
        eval_every=1000,
        save_every=400,
    )


def mine() -> Recipe:
    """Return what ``jupyt5-train mine`` does to the bundled model, whose sizes and examples it has.

    The rates are half of those that its own last run began with, and fall to 0 in half a wave.
    """
    return replace(
        nano(),
        name="mine",
        optimizer=OptimizerConfig(
            name="muon", muon_lr=4e-4, peak_lr=2e-4, schedule="cosine", warmup_steps=10
        ),
        steps=300,
        batch_tokens=2048,
        markdown_target_rate=0.3,
        eval_every=100,
        save_every=50,
    )


def base() -> Recipe:
    """Return a run of BART-base's size: one GPU, days."""
    return replace(large(), name="base", model=find_preset("base"))


def large() -> Recipe:
    """Return the paper's best model: C = 3 and one following cell, 5 epochs, from BART-large.

    The paper keeps PyMT5's settings (https://arxiv.org/abs/2010.03150; Adam, rate 9.1875e-5 after
    5,000 steps, inverse square root, weight decay 0.01) but for the batch, which it does not name.
    Ours is 16 micro-batches of 32,768 ids, about 1,000 cells a step. For more GPUs raise
    ``micro_batches`` to a multiple of them.
    """
    return Recipe(
        name="large",
        model=find_preset("large"),
        examples=ExampleConfig(
            formatter=FormatterSettings(
                num_context_cells=3,
                num_following_cells=1,
                source_budget_tokens=1024,
                max_target_tokens=512,
            )
        ),
        optimizer=OptimizerConfig(peak_lr=9.1875e-5, warmup_steps=5000),
        steps=0,
        epochs=5,
        batch_tokens=32_768,
        micro_batches=16,
        eval_every=2000,
        eval_targets=4096,
        eval_decoded=256,
        save_every=1000,
        keep_checkpoints=3,
        precision="bfloat16",
        compile=True,
    )


def large_v100() -> Recipe:
    """Return ``large`` for the paper's 80 V100 of 32 GB: float16 with loss scaling."""
    return replace(
        large(),
        name="large-v100",
        batch_tokens=16_384,
        micro_batches=80,
        precision="float16",
        compile=False,
    )


def large_c1() -> Recipe:
    """Return ``large`` with one context cell."""
    return _with_cells(large(), "large-c1", num_context_cells=1, num_following_cells=1)


def large_baseline() -> Recipe:
    """Return ``large`` without the following cell: the paper's baseline."""
    return _with_cells(large(), "large-baseline", num_context_cells=3, num_following_cells=0)


def large_baseline_c1() -> Recipe:
    """Return ``large`` with one context cell and without the following cell."""
    return _with_cells(large(), "large-baseline-c1", num_context_cells=1, num_following_cells=0)


def pymt5() -> Recipe:
    """Return the stage before ``large``: functions of Python sources, piece by piece.

    Data: ``jupyt5-train prepare --python-sources``. Signature, docstring and body of a function are
    each a cell of their own kind, and each is filled in from the others (PyMT5).
    """
    return replace(
        large(),
        name="pymt5",
        examples=ExampleConfig(
            formatter=FormatterSettings(
                num_context_cells=2,
                num_following_cells=2,
                source_budget_tokens=1024,
                max_target_tokens=1024,
            ),
            context_draw="random",
            following_rate=0.75,
        ),
        eval_decoded=0,
    )


RECIPES: dict[str, Callable[[], Recipe]] = {
    "debug": debug,
    "nano": nano,
    "mine": mine,
    "base": base,
    "large": large,
    "large-v100": large_v100,
    "large-c1": large_c1,
    "large-baseline": large_baseline,
    "large-baseline-c1": large_baseline_c1,
    "pymt5": pymt5,
}


def find_recipe(name: str) -> Recipe:
    """Return a recipe by name.

    Raises:
        UsageError: If there is none of that name.
    """
    if name not in RECIPES:
        message = f"There is no recipe {name!r}. Recipes: {', '.join(RECIPES)}."
        raise UsageError(message)
    return RECIPES[name]()


def apply_settings(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """Return the recipe with ``key=value`` settings applied; nested keys use dots.

    Raises:
        UsageError: If a key is unknown or a value does not fit; names it.
    """
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator:
            message = f"--set {setting!r} is not key=value, e.g. --set steps=100."
            raise UsageError(message)
        recipe = _replace_path(recipe, key.split("."), value, key)
    return recipe


def _with_cells(recipe: Recipe, name: str, **cells: int) -> Recipe:
    formatter = replace(recipe.examples.formatter, **cells)
    return replace(recipe, name=name, examples=replace(recipe.examples, formatter=formatter))


def _replace_path(config: T, path: Sequence[str], value: str, key: str) -> T:
    fields = {item.name: item for item in dataclasses.fields(config)}  # type: ignore[arg-type]
    if path[0] not in fields:
        message = f"--set {key}: there is no {path[0]!r}. Known here: {', '.join(fields)}."
        raise UsageError(message)
    current = getattr(config, path[0])
    if len(path) > 1:
        if not dataclasses.is_dataclass(current):
            message = f"--set {key}: {path[0]!r} has no parts."
            raise UsageError(message)
        changed: object = _replace_path(current, path[1:], value, key)
    else:
        changed = _convert(current, value, key)
    return replace(config, **{path[0]: changed})  # type: ignore[type-var]


def _convert(current: object, value: str, key: str) -> object:
    if isinstance(current, bool):
        if value not in {"true", "false"}:
            message = f"--set {key}={value} does not fit: it is true or false."
            raise UsageError(message)
        return value == "true"
    if isinstance(current, int | float | str):
        try:
            return type(current)(value)
        except ValueError as exc:
            wanted = {int: "a whole number", float: "a number"}.get(type(current), "text")
            message = f"--set {key}={value} does not fit: it is {wanted}, e.g. {current}."
            raise UsageError(message) from exc
    message = f"--set {key}: set its parts one by one, e.g. {key}.NAME=VALUE."
    raise UsageError(message)
