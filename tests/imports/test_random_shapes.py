"""Ten models of random shape: imported, reloaded and exported, each says what its parent says."""

import random
import threading
from pathlib import Path

import pytest

from jupyt5.model.ct2_engine import Ct2Engine
from jupyt5.model.decoding import DecodeRequest, Engine
from jupyt5.model.export import export_ctranslate2
from jupyt5.model.seq2seq import load_model, save_model
from jupyt5.model.torch_engine import TorchEngine
from jupyt5.tokenizer import Tokenizer

from .fairseq_model import Sizes, write_fairseq
from .test_fairseq import assert_parity, convert, text_rows


def draw_sizes(seed: int) -> tuple[Sizes, int]:
    """Return sizes, and the number of padding rows; five of them at least hold control codes."""
    rng = random.Random(seed)
    heads = rng.choice([1, 2, 4])
    sizes = Sizes(
        d_model=heads * rng.choice([4, 8, 12]),
        heads=heads,
        ffn_dim=rng.randrange(8, 65, 4),
        encoder_layers=rng.randint(1, 3),
        decoder_layers=rng.randint(1, 3),
        positions=rng.randint(16, 40),
        activation=rng.choice(["gelu", "relu", "gelu_accurate"]),
        scale=rng.random() < 0.5,
    )
    return sizes, rng.randint(5, 12)


def greedy(engine: Engine, source_ids: list[int]) -> list[int | None]:
    request = DecodeRequest(source_ids=source_ids, temperature=0, max_tokens=8)
    return [step.token_id for step in engine.decode(request, threading.Event())]


@pytest.mark.parametrize("seed", range(10))
def test_random_shapes_keep_their_logits(seed: int, tmp_path: Path) -> None:
    sizes, num_padding = draw_sizes(seed)
    written = write_fairseq(tmp_path / "parent", sizes, num_padding=num_padding, seed=seed)
    out = tmp_path / "out"
    assert convert(written, out) == 0
    assert_parity(written, written.state, out, text_rows(written))
    again = tmp_path / "again"
    again.mkdir()
    save_model(load_model(out), again)
    assert_parity(written, written.state, again, text_rows(written))
    export_ctranslate2(out, tmp_path / "ct2", "float32")
    tokenizer = Tokenizer.load(out / "tokenizer.json")
    source_ids = [tokenizer.special.control["<code>"], *tokenizer.encode("import numpy")]
    assert len(source_ids) < sizes.positions
    expected = greedy(TorchEngine(out, tokenizer), source_ids)
    assert greedy(Ct2Engine(tmp_path / "ct2", tokenizer), source_ids) == expected
