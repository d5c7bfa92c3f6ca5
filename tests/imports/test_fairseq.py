"""fairseq checkpoints: equal logits, whatever they are called, and refusals."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from jupyt5.cli import main
from jupyt5.files import sha256_file
from jupyt5.infilling import CONTROL_CODES
from jupyt5.model.checkpoint import read_meta
from jupyt5.model.seq2seq import load_model
from jupyt5.tokenizer import Tokenizer

from .fairseq_model import (
    Sizes,
    State,
    Written,
    reference_logits,
    save,
    settings,
    write_fairseq,
)

# float32 sums in another order; the logits are of size 1 to 10.
TOLERANCE = 1e-4


def draw(rows: int, *, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    source_BS = torch.randint(4, rows, (2, 13), generator=rng)
    target_BT = torch.randint(4, rows, (2, 7), generator=rng)
    target_BT[:, 0] = 2  # fairseq starts from </s>
    return source_BS, target_BT


def logits(folder: Path, source_BS: torch.Tensor, target_BT: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return load_model(folder)(input_ids=source_BS, decoder_input_ids=target_BT).logits


def assert_parity(written: Written, state: State, out: Path, rows: list[int]) -> None:
    """Compare on rows that the parent had; control codes have taken some of its padding."""
    drawn_BS, drawn_BT = draw(len(rows))
    kept = torch.tensor(rows)
    source_BS, target_BT = kept[drawn_BS], kept[drawn_BT]
    target_BT[:, 0] = 2
    expected_BTV = reference_logits(state, written.sizes, source_BS, target_BT)
    actual_BTV = logits(out, source_BS, target_BT)
    torch.testing.assert_close(
        actual_BTV[..., kept], expected_BTV[..., kept], rtol=TOLERANCE, atol=TOLERANCE
    )


def text_rows(written: Written) -> list[int]:
    symbols = enumerate(written.symbols)
    return [idx for idx, symbol in symbols if not symbol.startswith("madeupword")]


def convert(written: Written, out: Path, *more: str) -> int:
    return main(["import-fairseq", *written.arguments, *more, "--out", str(out)])


@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(),
        Sizes(encoder_layers=1, decoder_layers=3, heads=4),
        Sizes(d_model=24, heads=3, ffn_dim=10, activation="relu"),
        Sizes(d_model=8, heads=1, positions=31, scale=True),
        Sizes(d_model=40, heads=5, activation="gelu_accurate"),
        Sizes(d_model=12, heads=2, encoder_layers=3, positions=13),
        Sizes(d_model=32, heads=8, ffn_dim=7, scale=True, activation="relu"),
        Sizes(d_model=6, heads=3, decoder_layers=2),
        Sizes(d_model=64, heads=1, ffn_dim=128, encoder_layers=1),
        Sizes(d_model=10, heads=5, encoder_layers=4, decoder_layers=4, positions=57),
    ],
    ids=lambda sizes: f"{sizes.d_model}x{sizes.heads}-{sizes.activation}",
)
def test_logits_equal_those_of_the_state_dict(sizes: Sizes, tmp_path: Path) -> None:
    written = write_fairseq(tmp_path / "parent", sizes, num_padding=sizes.d_model % 7)
    assert convert(written, tmp_path / "out") == 0
    assert_parity(written, written.state, tmp_path / "out", text_rows(written))


def test_folder_is_a_checkpoint(written: Written, imported: Path) -> None:
    names = {path.name for path in imported.iterdir()}
    assert names == {
        "README.md",
        "config.json",
        "generation_config.json",
        "jupyt5.json",
        "model.safetensors",
        "tokenizer.json",
    }
    meta = read_meta(imported)
    assert meta.name == "bart"
    assert [parent["name"] for parent in meta.parents] == [
        "model.pt",
        "dict.txt",
        "vocab.bpe",
        "encoder.json",
    ]
    assert meta.parents[0]["sha256"] == sha256_file(written.folder / "model.pt")
    assert {parent["licence"] for parent in meta.parents} == {"MIT"}
    assert meta.formatter.source_budget_tokens == written.sizes.positions
    config = json.loads((imported / "config.json").read_text())
    assert config["normalize_before"] is False
    assert config["vocab_size"] == len(written.symbols)
    assert config["decoder_start_token_id"] == config["eos_token_id"] == 2
    card = (imported / "README.md").read_text()
    assert meta.parents[0]["sha256"] in card
    assert "MIT" in card


def test_exact_values_are_kept(written: Written, imported: Path) -> None:
    state = load_model(imported).model.state_dict()
    fc1 = "decoder.layers.0.fc1.weight"
    assert torch.equal(state[fc1], written.state[fc1])
    rows = text_rows(written)
    assert torch.equal(
        state["shared.weight"][rows], written.state["encoder.embed_tokens.weight"][rows]
    )


def test_bart_without_padding_gets_rows_for_control_codes(tmp_path: Path) -> None:
    written = write_fairseq(tmp_path / "parent", whitespace=(), num_padding=3)
    assert convert(written, tmp_path / "out") == 0
    tokenizer = Tokenizer.load(tmp_path / "out" / "tokenizer.json")
    ids = sorted(tokenizer.special.control[code] for code in CONTROL_CODES)
    padding = [k for k, symbol in enumerate(written.symbols) if symbol.startswith("madeupword")]
    assert ids == [*padding, len(written.symbols), len(written.symbols) + 1]
    assert tokenizer.vocab_size == load_model(tmp_path / "out").config.vocab_size
    assert tokenizer.special.slot == len(written.symbols) - 1


def rename(state: State) -> State:
    """Spell a state dict as old fairseq did, inside a wrapper, with a head and its own mask."""
    old: State = {"module.classification_heads.mnli.dense.weight": torch.zeros(2, 2)}
    norms = {"self_attn_layer_norm": 0, "encoder_attn_layer_norm": 1, "final_layer_norm": 1}
    for name, tensor in state.items():
        parts = name.split(".")
        if name in {"decoder.output_projection.weight", "encoder.version"}:
            continue
        if parts[-2] in norms:
            is_last = name.startswith("decoder") and parts[-2] == "final_layer_norm"
            parts[-2:-1] = ["layer_norms", str(2 if is_last else norms[parts[-2]])]
        elif parts[-2] == "q_proj":
            fused = [state[name.replace("q_proj", f"{k}_proj")] for k in "qkv"]
            parts[-2:] = [f"in_proj_{parts[-1]}"]
            tensor = torch.cat(fused)
        elif parts[-2] in {"k_proj", "v_proj"}:
            continue
        elif parts[-2] == "layernorm_embedding":
            parts[-2] = "emb_layer_norm"
        old[f"module.{'.'.join(parts)}"] = tensor
    old["module.encoder.embed_positions._float_tensor"] = torch.zeros(1)
    return old


def test_old_names_and_extra_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = write_fairseq(tmp_path / "parent")
    save(written.folder, rename(written.state), written.sizes)
    assert convert(written, tmp_path / "out") == 0
    assert "classification_heads.mnli.dense.weight" in capsys.readouterr().err
    assert "classification_heads" in (tmp_path / "out" / "README.md").read_text()
    assert_parity(written, written.state, tmp_path / "out", text_rows(written))


def test_settings_of_newer_fairseq_and_half_precision(tmp_path: Path) -> None:
    written = write_fairseq(tmp_path / "parent", Sizes(activation="relu", scale=True))
    half = {name: tensor.half() for name, tensor in written.state.items()}
    config = {"task": {"_name": "denoising"}, "model": Namespace(**settings(written.sizes))}
    torch.save({"args": None, "cfg": config, "model": half}, written.folder / "model.pt")
    assert convert(written, tmp_path / "out") == 0
    exact = {name: tensor.float() for name, tensor in half.items()}
    assert_parity(written, exact, tmp_path / "out", text_rows(written))


def test_lost_heads_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = write_fairseq(tmp_path / "parent")
    torch.save(written.state, written.folder / "model.pt")
    assert convert(written, tmp_path / "out") == 1
    assert "Give --heads N" in capsys.readouterr().err
    assert convert(written, tmp_path / "out", "--heads", "3") == 1
    assert "3 attention heads do not divide the width 16" in capsys.readouterr().err
    assert convert(written, tmp_path / "out", "--heads", "2") == 0
    assert_parity(written, written.state, tmp_path / "out", text_rows(written))


def test_positions_are_extended_by_copying(written: Written, tmp_path: Path) -> None:
    assert convert(written, tmp_path / "out", "--positions", "50") == 0
    state = load_model(tmp_path / "out").model.state_dict()
    for side in ("encoder", "decoder"):
        old_PD = written.state[f"{side}.embed_positions.weight"]
        new_PD = state[f"{side}.embed_positions.weight"]
        assert new_PD.shape[0] == 52
        assert torch.equal(new_PD[:22], old_PD)
        assert torch.equal(new_PD[22:42], old_PD[2:])
    assert_parity(written, written.state, tmp_path / "out", text_rows(written))
    source_BS, target_BT = draw(200)
    assert logits(tmp_path / "out", source_BS.repeat(1, 3), target_BT).isfinite().all()


def test_shorter_table_of_positions_is_extended(tmp_path: Path) -> None:
    written = write_fairseq(tmp_path / "parent")
    name = "decoder.embed_positions.weight"
    short_PD = written.state[name][:12]
    save(written.folder, {**written.state, name: short_PD}, written.sizes)
    assert convert(written, tmp_path / "out") == 0
    new_PD = load_model(tmp_path / "out").model.state_dict()[name]
    assert torch.equal(new_PD, torch.cat([short_PD, short_PD[2:]]))
    assert_parity(written, written.state, tmp_path / "out", text_rows(written))


def test_fewer_positions_are_refused(
    written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(written, tmp_path / "out", "--positions", "19") == 2
    assert "less than the checkpoint's 20" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"encoder.layer_norm.weight": torch.ones(16)}, "encoder.layer_norm.weight is unknown"),
        ({"decoder.output_projection.weight": torch.ones(5, 16)}, "differs from"),
        ({"encoder.layernorm_embedding.bias": None}, "layernorm_embedding.bias is missing"),
        ({"encoder.embed_positions.weight": None}, "positions are not learned"),
        ({"decoder.layers.0.fc1.weight": None}, "no matrix decoder.layers.0.fc1.weight"),
        ({"decoder.layers.0.fc2.bias": torch.ones(3)}, "is (3,), not (16,)"),
        ({"decoder.layers.0.fc2.bias": torch.full((16,), torch.nan)}, "not finite"),
        ({"decoder.layers.0.fc2.bias": torch.ones(16, dtype=torch.int8)}, "torch.int8"),
        ({"encoder.embed_positions.weight": torch.ones(2, 16)}, "no table of positions"),
        ({"encoder.layers.99999999.fc1.weight": torch.ones(1)}, "some are missing"),
        ({"encoder.layers.0.self_attn.in_proj_bias": torch.ones(4)}, "not three parts"),
    ],
)
def test_other_models_are_refused(
    change: dict[str, torch.Tensor | None],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written = write_fairseq(tmp_path / "parent")
    merged = {**written.state, **change}
    save(written.folder, {k: v for k, v in merged.items() if v is not None}, written.sizes)
    assert convert(written, tmp_path / "out") == 1
    assert words in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"parent"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"encoder_normalize_before": True}, "normalize_before"),
        ({"activation_fn": "swish"}, "'swish'"),
        ({"encoder_attention_heads": "many"}, "cannot be read"),
        ({"encoder_attention_heads": float("inf")}, "cannot be read"),
        ({"encoder_attention_heads": torch.ones(2)}, "does not say encoder_attention_heads"),
        ({"dropout": 1.5}, "The dropout 1.5"),
    ],
)
def test_other_settings_are_refused(
    change: dict[str, object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = write_fairseq(tmp_path / "parent")
    args = Namespace(**(settings(written.sizes) | change))
    torch.save({"args": args, "model": written.state}, written.folder / "model.pt")
    assert convert(written, tmp_path / "out") == 1
    assert words in capsys.readouterr().err
