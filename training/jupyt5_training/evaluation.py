# pyright: basic
"""Evaluation on held-out cells: loss for each kind of target, exact match and CodeBLEU.

Targets, and where they are cut, depend on the seed alone, so that figures of different steps,
models and context settings are about the same cells.

Tensor names end in their axes: B examples, S source positions, T target positions; N targets.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from transformers import BartForConditionalGeneration

from jupyt5.tokenizer import Tokenizer
from jupyt5_training.arrays import KINDS
from jupyt5_training.batches import Batch, collate, cut_batches
from jupyt5_training.distributed import Ranks
from jupyt5_training.examples import Example, ExampleMaker
from jupyt5_training.greedy import decode_greedily, score_matches
from jupyt5_training.losses import target_nll
from jupyt5_training.precision import autocast

__all__ = ["EvalConfig", "TargetLosses", "evaluate", "measure_losses", "score_decoded"]

EVAL_EPOCH = 1 << 30
"""The draws of validation examples are those of an epoch that no run reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalConfig:
    """What is evaluated.

    Attributes:
        num_targets: Targets whose loss counts, drawn without repetition.
        num_decoded: Code targets of these that are decoded greedily; 0 leaves exact match and
            CodeBLEU out. Targets longer than the longest are left out, as nothing could match.
        batch_tokens: Source and target ids of a batch, padding included.
        seed: Of the draw and the cuts.
        precision: Of matrix products, see ``precision.autocast``.
    """

    num_targets: int = 512
    num_decoded: int = 0
    batch_tokens: int = 8192
    seed: int = 0
    precision: str = "float32"


@dataclass(frozen=True, slots=True)
class TargetLosses:
    """Losses target by target, arrays of shape (targets,).

    ``kinds`` are indices into ``arrays.KINDS``, ``nll`` sums of nats over ``num_ids`` ids.
    """

    notebooks: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int64]
    nll: npt.NDArray[np.float64]
    num_ids: npt.NDArray[np.int64]

    def summarise(self) -> dict[str, float]:
        """Mean nats per target id: ``validation_loss``, and ``validation_KIND_loss`` for each kind.

        A loss over no targets at all is left out.
        """
        chosen = {"validation_loss": np.ones(len(self.kinds), np.bool_)}
        chosen |= {f"validation_{kind}_loss": self.kinds == idx for idx, kind in enumerate(KINDS)}
        return {
            name: float(self.nll[mask].sum() / self.num_ids[mask].sum())
            for name, mask in chosen.items()
            if mask.any()
        }


def evaluate(
    model: BartForConditionalGeneration,
    maker: ExampleMaker,
    config: EvalConfig,
    *,
    tokenizer: Tokenizer,
    ranks: Ranks | None = None,
) -> dict[str, float]:
    """Evaluate a model on one split; the model is in training mode again afterwards if it was.

    Args:
        model: The bare model. Sharded weights must be callable, and all ranks must then come with
            a lone ``ranks`` so that they run the same batches.
        maker: Of the validation split, with fixed context.
        config: What is evaluated.
        tokenizer: The data's.
        ranks: Share the work among them; all get the same figures. Default: this process alone.

    Returns:
        ``validation_loss``, ``validation_code_loss``, ``validation_markdown_loss`` and so on in
        nats per target id; with ``num_decoded`` also ``exact_match`` and, where the codebleu
        package is installed, ``codebleu``, both in [0, 1]. Figures over nothing are left out.
    """
    ranks = ranks or Ranks()
    losses = measure_losses(model, maker, config, tokenizer=tokenizer, ranks=ranks)
    if not config.num_decoded:
        return losses.summarise()
    return losses.summarise() | score_decoded(
        model, maker, config, tokenizer=tokenizer, ranks=ranks
    )


def measure_losses(
    model: BartForConditionalGeneration,
    maker: ExampleMaker,
    config: EvalConfig,
    *,
    tokenizer: Tokenizer,
    ranks: Ranks | None = None,
) -> TargetLosses:
    """Measure the loss of each target; see ``evaluate`` for the arguments."""
    ranks = ranks or Ranks()
    pad = tokenizer.special.pad
    positions = _draw_positions(maker, config)
    examples = _make_examples(maker, positions, config)
    nll_N = np.zeros(len(examples))
    with _evaluating(model):
        for chosen in _share(examples, config.batch_tokens, ranks):
            batch = _collate([examples[idx] for idx in chosen], pad)
            source_BS = torch.from_numpy(batch.source_BS).to(model.device)
            target_BT = torch.from_numpy(batch.target_BT).to(model.device)
            with autocast(model.device, config.precision):
                nll_B = target_nll(model, source_BS, target_BT, pad=pad)
            nll_N[chosen] = nll_B.double().cpu().numpy()
    arrays = maker.arrays
    cells = arrays.targets[positions]
    return TargetLosses(
        np.searchsorted(arrays.notebook_offsets, cells, side="right") - 1,
        arrays.kinds[cells].astype(np.int64),
        np.asarray(ranks.sum(nll_N.tolist())),
        np.array([len(example.target_ids) for example in examples], np.int64),
    )


def score_decoded(
    model: BartForConditionalGeneration,
    maker: ExampleMaker,
    config: EvalConfig,
    *,
    tokenizer: Tokenizer,
    ranks: Ranks | None = None,
) -> dict[str, float]:
    """Exact match and CodeBLEU of greedy hypotheses for the first code targets of the draw.

    See ``evaluate`` for the arguments.
    """
    ranks = ranks or Ranks()
    arrays = maker.arrays
    positions = _draw_positions(maker, config)
    is_code = arrays.kinds[arrays.targets[positions]] == KINDS.index("code")
    examples = _make_examples(maker, positions[is_code], config)
    eos = tokenizer.special.eos
    whole = [one for one in examples if len(one.target_ids) > 1 and one.target_ids[-1] == eos]
    whole = whole[: config.num_decoded]
    longest = maker.config.formatter.max_target_tokens
    pairs: list[tuple[str, str]] = []
    with _evaluating(model):
        for chosen in _share(whole, config.batch_tokens, ranks, target_room=longest):
            batch = [whole[idx] for idx in chosen]
            with autocast(model.device, config.precision):
                hypotheses = decode_greedily(
                    model, [one.source_ids for one in batch], tokenizer, max_tokens=longest
                )
            references = [tokenizer.decode(one.target_ids[:-1].tolist()) for one in batch]
            pairs += zip(references, hypotheses, strict=True)
    return score_matches(pairs, ranks)


def _draw_positions(maker: ExampleMaker, config: EvalConfig) -> npt.NDArray[np.int64]:
    order = np.random.default_rng(config.seed).permutation(maker.num_targets)
    return order[: config.num_targets]


def _make_examples(
    maker: ExampleMaker, positions: Sequence[int] | npt.NDArray[np.int64], config: EvalConfig
) -> list[Example]:
    return [maker.make(int(position), seed=config.seed, epoch=EVAL_EPOCH) for position in positions]


def _share(
    examples: Sequence[Example], batch_tokens: int, ranks: Ranks, *, target_room: int = 0
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield this rank's batches as indices; at least ``target_room`` target ids count for each."""
    sources = np.array([len(example.source_ids) for example in examples], np.int64)
    targets = np.array([len(example.target_ids) for example in examples], np.int64)
    order, starts = cut_batches(sources, np.maximum(targets, target_room), batch_tokens)
    for batch_idx in range(ranks.rank, len(starts) - 1, ranks.world_size):
        yield order[starts[batch_idx] : starts[batch_idx + 1]]


def _collate(examples: Sequence[Example], pad: int) -> Batch:
    return collate(
        [example.source_ids for example in examples],
        [example.target_ids for example in examples],
        pad=pad,
    )


@contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """No gradients and no dropout inside; then the mode that was."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)
