# pyright: basic
"""Evaluation: losses by kind, on any number of ranks, and what greedy hypotheses are worth."""

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import BartForConditionalGeneration

from jupyt5.errors import CheckpointError, TrainingError
from jupyt5.hypotheses.codebleu import explain_missing
from jupyt5.model.checkpoint import CheckpointMeta, write_meta
from jupyt5.model.seq2seq import build_model, save_model
from jupyt5.tokenizer import Tokenizer, train_tokenizer
from jupyt5_training import greedy
from jupyt5_training.arrays import load_arrays, load_data_tokenizer
from jupyt5_training.checkpoint_evaluation import (
    CheckpointEvalConfig,
    describe_evaluation,
    evaluate_checkpoint,
)
from jupyt5_training.cli import main
from jupyt5_training.distributed import Ranks
from jupyt5_training.evaluation import EVAL_EPOCH, EvalConfig, evaluate, measure_losses
from jupyt5_training.examples import ExampleMaker
from jupyt5_training.greedy import decode_greedily, score_matches
from jupyt5_training.intervals import resample_losses
from jupyt5_training.recipes import Recipe

CONFIG = EvalConfig(num_targets=24, batch_tokens=512, seed=3)


@pytest.fixture(scope="module")
def tokenizer(data: Path) -> Tokenizer:
    return load_data_tokenizer(data)


@pytest.fixture(scope="module")
def maker(data: Path, tokenizer: Tokenizer, recipe: Recipe) -> ExampleMaker:
    return ExampleMaker(load_arrays(data, "validation"), tokenizer, recipe.examples)


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer, recipe: Recipe) -> BartForConditionalGeneration:
    shape = replace(recipe.model, vocab_size=tokenizer.vocab_size)
    return build_model(shape, tokenizer.special, seed=0)


@pytest.fixture(scope="module")
def folder(
    model: BartForConditionalGeneration,
    data: Path,
    recipe: Recipe,
    tokenizer: Tokenizer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    save_model(model, path)
    tokenizer.save(path / "tokenizer.json")
    write_meta(path, CheckpointMeta(name="tiny", formatter=recipe.examples.formatter))
    return path


def test_losses_are_those_of_single_examples(
    model: BartForConditionalGeneration, maker: ExampleMaker, tokenizer: Tokenizer
) -> None:
    found = measure_losses(model, maker, CONFIG, tokenizer=tokenizer)
    order = np.random.default_rng(CONFIG.seed).permutation(maker.num_targets)
    start = model.config.decoder_start_token_id
    network: torch.nn.Module = model.eval()
    for idx in (0, 7, 23):
        example = maker.make(int(order[idx]), seed=CONFIG.seed, epoch=EVAL_EPOCH)
        target_1T = torch.from_numpy(example.target_ids)[None]
        before_1T = torch.cat([torch.tensor([[start]]), target_1T[:, :-1]], dim=1)
        with torch.no_grad():
            output = network(
                input_ids=torch.from_numpy(example.source_ids)[None], decoder_input_ids=before_1T
            )
        expected = F.cross_entropy(output.logits[0], target_1T[0], reduction="sum")
        assert found.nll[idx] == pytest.approx(float(expected), rel=1e-4)
        assert found.num_ids[idx] == len(example.target_ids)
    figures = found.summarise()
    assert figures["validation_loss"] == pytest.approx(found.nll.sum() / found.num_ids.sum())
    counts = [found.num_ids[found.kinds == kind].sum() for kind in (1, 0)]
    both = [figures["validation_code_loss"], figures["validation_markdown_loss"]]
    assert np.average(both, weights=counts) == pytest.approx(figures["validation_loss"])


def test_the_model_keeps_its_mode_and_its_weights(
    model: BartForConditionalGeneration, maker: ExampleMaker, tokenizer: Tokenizer
) -> None:
    model.train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    first = evaluate(model, maker, CONFIG, tokenizer=tokenizer)
    assert model.training
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert evaluate(model, maker, CONFIG, tokenizer=tokenizer) == first  # no dropout
    model.eval()
    evaluate(model, maker, CONFIG, tokenizer=tokenizer)
    assert not model.training


class _TwoRanks(Ranks):
    """Stands for one of two processes; keeps what it would have sent."""

    sent: list[list[float]]

    def sum(self, values: Sequence[float]) -> list[float]:
        self.sent.append(list(values))
        return list(values)


def test_ranks_share_the_work(
    model: BartForConditionalGeneration, maker: ExampleMaker, tokenizer: Tokenizer
) -> None:
    config = replace(CONFIG, num_decoded=6)
    alone = measure_losses(model, maker, config, tokenizer=tokenizer)
    sent: list[list[list[float]]] = []
    for rank in (0, 1):
        _TwoRanks.sent = []
        evaluate(
            model, maker, config, tokenizer=tokenizer, ranks=_TwoRanks(rank=rank, world_size=2)
        )
        sent.append(_TwoRanks.sent)
    losses = np.array([parts[0] for parts in sent])
    assert ((losses > 0).sum(axis=0) == 1).all()
    assert losses.sum(axis=0) == pytest.approx(alone.nll, rel=1e-4)
    assert all(0 < count < alone.num_ids.size for count in (losses > 0).sum(axis=1))
    assert sum(parts[1][0] for parts in sent) == 6  # decoded, together


def test_greedy_hypotheses_do_not_depend_on_the_batch(
    model: BartForConditionalGeneration, maker: ExampleMaker, tokenizer: Tokenizer
) -> None:
    # Large weights make attention sharp, so that padding would be seen.
    model = copy.deepcopy(model).eval()
    for weight in model.parameters():
        weight.data *= 10
    sources = [maker.make(position, seed=0, epoch=0).source_ids for position in range(5)]
    with torch.no_grad():
        together = decode_greedily(model, sources, tokenizer, max_tokens=8)
        alone = [decode_greedily(model, [one], tokenizer, max_tokens=8)[0] for one in sources]
    assert together == alone
    assert all(together)


def test_matches(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    code = "total = a + b\nprint(total)"
    pairs = [(code, code), ("x = 1\n", "x = 1  \n\n"), (code, "total = a\nprint(total)")]
    figures = score_matches(pairs)
    assert figures["exact_match"] == pytest.approx(2 / 3)
    if not explain_missing():
        assert 0.6 < figures["codebleu"] < 1
    assert score_matches([]) == {}
    monkeypatch.setattr(greedy, "explain_missing", lambda extra: f"Install {extra}.")
    greedy._is_codebleu_missing.cache_clear()
    assert score_matches(pairs) == {"exact_match": pytest.approx(2 / 3)}
    assert score_matches(pairs).keys() == {"exact_match"}
    assert caplog.text.count("CodeBLEU is left out. Install train.") == 1
    greedy._is_codebleu_missing.cache_clear()


def test_a_model_that_knows_its_cells_matches_them(
    model: BartForConditionalGeneration,
    maker: ExampleMaker,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = np.random.default_rng(CONFIG.seed).permutation(maker.num_targets)
    known: dict[bytes, str] = {}
    for position in order[: CONFIG.num_targets]:
        example = maker.make(int(position), seed=CONFIG.seed, epoch=EVAL_EPOCH)
        known[example.source_ids.tobytes()] = tokenizer.decode(example.target_ids.tolist())

    def recall(_model: object, sources: list[np.ndarray], *_: object, **__: object) -> list[str]:
        return [known[source.tobytes()] for source in sources]

    monkeypatch.setattr("jupyt5_training.evaluation.decode_greedily", recall)
    figures = evaluate(model, maker, replace(CONFIG, num_decoded=8), tokenizer=tokenizer)
    assert figures["exact_match"] == 1.0


def test_a_checkpoint_in_the_four_settings(folder: Path, data: Path) -> None:
    config = CheckpointEvalConfig(
        contexts=(1, 3), followings=(0, 1), evaluation=replace(CONFIG, num_decoded=3)
    )
    found = evaluate_checkpoint(folder, data, config)
    found = json.loads(json.dumps(found))
    settings = [(row["num_context_cells"], row["num_following_cells"]) for row in found["settings"]]
    assert settings == [(1, 0), (1, 1), (3, 0), (3, 1)]
    losses = [row["validation_loss"] for row in found["settings"]]
    assert len(set(losses)) == 4
    for row in found["settings"]:
        sums_C2 = np.array(row["notebooks"]["all"])
        assert sums_C2.sum(axis=0)[0] / sums_C2.sum(axis=0)[1] == pytest.approx(
            row["validation_loss"], rel=1e-4
        )
        # The same targets in every setting.
        assert sums_C2[:, 1].tolist() == [n for _, n in found["settings"][0]["notebooks"]["all"]]
        low, high = row["ci95"]["validation_loss"]
        assert low < row["validation_loss"] < high
        assert 0 <= row["exact_match"] <= 1
    text = "\n".join(describe_evaluation(found))
    assert "C = 3, following = 1" in text
    assert f"{losses[-1]:.4f}" in text
    own = evaluate_checkpoint(folder, data, CheckpointEvalConfig(evaluation=CONFIG))
    assert [row["validation_loss"] for row in own["settings"]] == pytest.approx(losses[-1:])


def test_intervals_are_paired_and_cover() -> None:
    draw = np.random.default_rng(0)
    ids = draw.integers(50, 150, size=60).astype(np.float64)
    own_C = 2 + draw.normal(scale=0.3, size=60)
    first = np.stack([own_C * ids, ids], axis=1)
    second = np.stack([(own_C - 0.05) * ids, ids], axis=1)
    wide = np.quantile(resample_losses(first), [0.025, 0.975])
    paired = np.quantile(resample_losses(second) - resample_losses(first), [0.025, 0.975])
    assert wide[1] - wide[0] > 0.1
    assert paired == pytest.approx([-0.05, -0.05])
    expected = 1.96 * own_C.std() / math.sqrt(60)
    assert (wide[1] - wide[0]) / 2 == pytest.approx(expected, rel=0.2)
    assert np.isnan(resample_losses(np.zeros((3, 2)))).all()


def test_other_folders_are_refused(folder: Path, data: Path, tmp_path: Path) -> None:
    config = CheckpointEvalConfig(evaluation=CONFIG)
    with pytest.raises(CheckpointError, match=r"jupyt5\.json"):
        evaluate_checkpoint(tmp_path, data, config)
    other = tmp_path / "other"
    other.mkdir()
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    train_tokenizer(["other text"], 300).save(other / "tokenizer.json")
    with pytest.raises(TrainingError, match="--tokenizer"):
        evaluate_checkpoint(other, data, config)
    with pytest.raises(TrainingError, match="jupyt5-train prepare"):
        evaluate_checkpoint(folder, tmp_path, config)


@pytest.mark.parametrize(
    "option", ["--context=-1", "--following=x", "--targets=0", "--decode=-1", "--seed=-1"]
)
def test_numbers_out_of_range_are_usage_errors(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["evaluate", str(tmp_path), "--data", str(tmp_path), option])
    except SystemExit as exc:
        code = exc.code
    assert code == 2
    assert option.partition("=")[0] in capsys.readouterr().err
