"""A checkpoint that fairseq 0.12.2 itself trained and saved, against fairseq's own logits.

``files/fairseq/make.sh`` says how both were made; fairseq is not needed here.
"""

import threading
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import torch

from jupyt5.cli import main
from jupyt5.model.checkpoint import TOKENIZER_NAME
from jupyt5.model.ct2_engine import Ct2Engine
from jupyt5.model.decoding import DecodeRequest, Engine
from jupyt5.model.export import export_ctranslate2
from jupyt5.model.imports.dictionary import token_bytes
from jupyt5.model.seq2seq import load_model, save_model
from jupyt5.model.torch_engine import TorchEngine
from jupyt5.tokenizer import SPECIAL_TOKENS, Tokenizer

FILES = Path(__file__).parent / "files" / "fairseq"
PAD = 1
# float32 sums in another order; the logits are of size 1 to 5.
TOLERANCE = 1e-5


def arguments() -> list[str]:
    command = ["import-fairseq", str(FILES / "model.pt"), "--dict", str(FILES / "dict.txt")]
    return [*command, "--merges", str(FILES / "vocab.bpe"), "--vocab", str(FILES / "encoder.json")]


def convert(out: Path, *more: str) -> Path:
    assert main([*arguments(), "--licence", "MIT", *more, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return convert(tmp_path_factory.mktemp("real") / "model")


@pytest.fixture(scope="module")
def said() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sources, targets and fairseq's logits; the last row is padded."""
    with np.load(FILES / "logits.npz") as arrays:
        source_BS, target_BT, logits_BTV = (
            torch.from_numpy(arrays[name]) for name in ("source_BS", "target_BT", "logits_BTV")
        )
    return source_BS.long(), target_BT.long(), logits_BTV


def own_logits(folder: Path, source_BS: torch.Tensor, target_BT: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        mask_BS = (source_BS != PAD).long()
        model = load_model(folder).eval()
        return model(source_BS, attention_mask=mask_BS, decoder_input_ids=target_BT).logits


def kept_rows(folder: Path) -> torch.Tensor:
    """All rows but those padding rows that our control codes have taken."""
    control = set(Tokenizer.load(folder / TOKENIZER_NAME).special.control.values())
    return torch.tensor([row for row in range(336) if row not in control])


def test_import_has_the_logits_of_fairseq(
    real: Path, said: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> None:
    source_BS, target_BT, expected_BTV = said
    assert (source_BS == PAD).any()
    kept = kept_rows(real)
    assert len(kept) == 331
    actual_BTV = own_logits(real, source_BS, target_BT)
    torch.testing.assert_close(
        actual_BTV[..., kept], expected_BTV[..., kept], rtol=TOLERANCE, atol=TOLERANCE
    )


def test_reloaded_weights_have_the_same_logits(
    real: Path, said: tuple[torch.Tensor, torch.Tensor, torch.Tensor], tmp_path: Path
) -> None:
    save_model(load_model(real), tmp_path)
    before_BTV, after_BTV = own_logits(real, *said[:2]), own_logits(tmp_path, *said[:2])
    assert torch.equal(after_BTV, before_BTV)


def test_transplanted_rows_have_the_same_logits(
    real: Path, said: tuple[torch.Tensor, torch.Tensor, torch.Tensor], tmp_path: Path
) -> None:
    """The bundled model's vocabulary: what fairseq says of shared tokens is said of them there."""
    _, _, expected_BTV = said
    moved = convert(tmp_path / "moved", "--tokenizer", "nano")
    tokenizer, parent = (Tokenizer.load(folder / TOKENIZER_NAME) for folder in (moved, real))
    new_rows = {
        token_bytes(token): row
        for row, token in enumerate(tokenizer.tokens)
        if token not in SPECIAL_TOKENS
    } | {token.encode(): tokenizer.tokens.index(token) for token in SPECIAL_TOKENS[:5]}
    pairs = {
        row: new_rows[token_bytes(token)]
        for row, token in enumerate(parent.tokens)
        if token_bytes(token) in new_rows
    }
    table = torch.full((336,), -1)
    table[list(pairs)] = torch.tensor(list(pairs.values()))
    old = torch.tensor(list(pairs))
    num_compared = 0
    for row, source_S in enumerate(table[said[0]]):
        known_T = table[said[1][row]].ge(0).long().cumprod(0).bool()
        if source_S.min() < 0:
            continue
        target_T = table[said[1][row]][known_T]
        actual_BTV = own_logits(moved, source_S[None], target_T[None])
        expected_TV = expected_BTV[row][known_T]
        torch.testing.assert_close(
            actual_BTV[0][:, table[old]], expected_TV[:, old], rtol=TOLERANCE, atol=TOLERANCE
        )
        num_compared += len(target_T)
    assert len(pairs) > 256
    assert num_compared > 9


def greedy(engine: Engine, source_ids: list[int]) -> list[int | None]:
    request = DecodeRequest(source_ids=source_ids, temperature=0, max_tokens=16)
    return [step.token_id for step in engine.decode(request, threading.Event())]


@pytest.mark.parametrize(("quantization", "least"), [("float32", 1.0), ("int8", 0.7)])
def test_export_decodes_as_torch_does(
    real: Path, tmp_path: Path, quantization: str, least: float
) -> None:
    """float32 says the same; int8 nearly: rows of 16 numbers are rounded hardest."""
    export_ctranslate2(real, tmp_path / "out", quantization)
    tokenizer = Tokenizer.load(real / TOKENIZER_NAME)
    theirs, ours = TorchEngine(real, tokenizer), Ct2Engine(tmp_path / "out", tokenizer)
    rng = np.random.default_rng(0)
    equal = 0
    for _ in range(20):
        source_ids = [0, *rng.integers(4, 320, 12).tolist(), 2]
        equal += greedy(ours, source_ids) == greedy(theirs, source_ids)
    assert equal >= least * 20


@pytest.mark.parametrize(("quantization", "tolerance"), [("float32", 1e-4), ("int8", 0.1)])
def test_export_has_the_log_probabilities_of_fairseq(
    real: Path,
    said: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    tmp_path: Path,
    quantization: str,
    tolerance: float,
) -> None:
    """Teacher forcing: each target id's log-probability, by the runtime and by fairseq."""
    source_BS, target_BT, logits_BTV = said
    export_ctranslate2(real, tmp_path / "out", quantization)
    tokens = Tokenizer.load(real / TOKENIZER_NAME).tokens
    translator = ctranslate2.Translator(str(tmp_path / "out"), compute_type="default")
    sources = [[tokens[idx] for idx in row if idx != PAD] for row in source_BS.tolist()]
    targets = [[tokens[idx] for idx in row[1:]] for row in target_BT.tolist()]
    scored = translator.score_batch(sources, targets)
    kept = kept_rows(real)
    for row, result in enumerate(scored):
        log_probs_TV = own_logits(real, source_BS, target_BT)[row].log_softmax(-1)
        torch.testing.assert_close(
            log_probs_TV[:, kept] - log_probs_TV[:, :1],
            (logits_BTV[row] - logits_BTV[row, :, :1])[:, kept],
            rtol=TOLERANCE * 10,
            atol=TOLERANCE * 10,
        )
        ids_T = target_BT[row, 1:]
        expected_T = log_probs_TV[:-1].gather(1, ids_T[:, None])[:, 0]
        actual_T = torch.tensor(result.log_probs[: len(ids_T)])
        torch.testing.assert_close(actual_T, expected_T, rtol=0, atol=tolerance)
