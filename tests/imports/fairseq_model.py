"""Tiny random fairseq models under fairseq's own names, and their forward pass in plain torch.

fairseq 0.12 does not import on this Python, so the pass is written from the description of BART:
post-norm blocks, learned positions that start at row 2, one table for input and output.
"""

import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

State = dict[str, torch.Tensor]
WHITESPACE = ("ĊĠĠĠĠ", "ĊĠĠĠĠĠĠĠĠ", "\n\t")
WORDS = "import numpy as np load data from file plot value return print code markdown comment "
TEXTS = [WORDS + "signature docstring def f(x): return x + 1 for i in range(10) naïve Ω"] * 8


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model; encoder and decoder may differ."""

    d_model: int = 16
    heads: int = 2
    ffn_dim: int = 24
    encoder_layers: int = 2
    decoder_layers: int = 1
    positions: int = 20
    activation: str = "gelu"
    scale: bool = False


@dataclass(frozen=True)
class Written:
    """A model on disk and what it was written from."""

    folder: Path
    state: State
    sizes: Sizes
    symbols: list[str]

    @property
    def arguments(self) -> list[str]:
        return [str(self.folder / "model.pt"), "--dict", str(self.folder / "dict.txt")]


def make_state(sizes: Sizes, rows: int, seed: int = 0) -> State:
    rng = torch.Generator().manual_seed(seed)
    state: State = {}

    def add(name: str, *shape: int, around: float = 0.0) -> None:
        state[name] = around + 0.3 * torch.randn(*shape, generator=rng)

    def add_linear(name: str, out: int, inside: int) -> None:
        add(f"{name}.weight", out, inside)
        add(f"{name}.bias", out)

    def add_norm(name: str) -> None:
        add(f"{name}.weight", sizes.d_model, around=1.0)
        add(f"{name}.bias", sizes.d_model)

    table = 0.3 * torch.randn(rows, sizes.d_model, generator=rng)
    for side, layers in (("encoder", sizes.encoder_layers), ("decoder", sizes.decoder_layers)):
        state[f"{side}.version"] = torch.tensor([3.0])
        state[f"{side}.embed_tokens.weight"] = table
        add(f"{side}.embed_positions.weight", sizes.positions + 2, sizes.d_model)
        for layer in range(layers):
            block = f"{side}.layers.{layer}"
            for attention in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                for part in ("k_proj", "v_proj", "q_proj", "out_proj"):
                    add_linear(f"{block}.{attention}.{part}", sizes.d_model, sizes.d_model)
                add_norm(f"{block}.{attention}_layer_norm")
            add_linear(f"{block}.fc1", sizes.ffn_dim, sizes.d_model)
            add_linear(f"{block}.fc2", sizes.d_model, sizes.ffn_dim)
            add_norm(f"{block}.final_layer_norm")
        add_norm(f"{side}.layernorm_embedding")
    state["decoder.output_projection.weight"] = table
    return state


def reference_logits(
    state: State, sizes: Sizes, source_BS: torch.Tensor, target_BT: torch.Tensor
) -> torch.Tensor:
    """Return logits_BTV of the fairseq state dict itself."""
    activation = {"gelu": F.gelu, "relu": F.relu}.get(sizes.activation)

    def linear(name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def norm(name: str, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(-1, keepdim=True)
        var = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / (var + 1e-5).sqrt() * state[f"{name}.weight"] + state[f"{name}.bias"]

    def attend(name: str, x: torch.Tensor, memory: torch.Tensor, *, causal: bool) -> torch.Tensor:
        q, k, v = (
            linear(f"{name}.{part}", y).unflatten(-1, (sizes.heads, -1)).transpose(1, 2)
            for part, y in (("q_proj", x), ("k_proj", memory), ("v_proj", memory))
        )
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if causal:
            later = torch.ones(scores.shape[-2:]).triu(1).bool()
            scores = scores.masked_fill(later, -torch.inf)
        return linear(f"{name}.out_proj", (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def embed(side: str, ids: torch.Tensor) -> torch.Tensor:
        x = state[f"{side}.embed_tokens.weight"][ids] * (sizes.d_model**0.5 if sizes.scale else 1.0)
        x = x + state[f"{side}.embed_positions.weight"][2 : 2 + ids.shape[1]]
        return norm(f"{side}.layernorm_embedding", x)

    def feed(block: str, x: torch.Tensor) -> torch.Tensor:
        inner = linear(f"{block}.fc1", x)
        if activation is not None:
            inner = activation(inner)
        else:  # gelu_accurate: by tanh
            inner = 0.5 * inner * (1 + (0.7978845608 * (inner + 0.044715 * inner**3)).tanh())
        return norm(f"{block}.final_layer_norm", x + linear(f"{block}.fc2", inner))

    memory = embed("encoder", source_BS)
    for layer in range(sizes.encoder_layers):
        block = f"encoder.layers.{layer}"
        mixed = attend(f"{block}.self_attn", memory, memory, causal=False)
        memory = feed(block, norm(f"{block}.self_attn_layer_norm", memory + mixed))
    x = embed("decoder", target_BT)
    for layer in range(sizes.decoder_layers):
        block = f"decoder.layers.{layer}"
        mixed = attend(f"{block}.self_attn", x, x, causal=True)
        x = norm(f"{block}.self_attn_layer_norm", x + mixed)
        mixed = attend(f"{block}.encoder_attn", x, memory, causal=False)
        x = feed(block, norm(f"{block}.encoder_attn_layer_norm", x + mixed))
    return x @ state["decoder.output_projection.weight"].T


def write_bpe(folder: Path, *, whitespace: Sequence[str] = ()) -> list[str]:
    """Write ``encoder.json`` and ``vocab.bpe``; return its tokens by id."""
    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator(TEXTS, trainer)
    saved = json.loads(engine.to_str())["model"]
    lines = [" ".join(merge) for merge in saved["merges"]]
    (folder / "vocab.bpe").write_text("\n".join(["#version: 0.2", *lines, ""]), encoding="utf-8")
    ids = saved["vocab"] | {token: len(saved["vocab"]) + k for k, token in enumerate(whitespace)}
    (folder / "encoder.json").write_text(json.dumps(ids), encoding="utf-8")
    return sorted(ids, key=lambda token: ids[token])


def settings(sizes: Sizes) -> dict[str, object]:
    return {
        "arch": "bart_base",
        "encoder_attention_heads": sizes.heads,
        "decoder_attention_heads": sizes.heads,
        "activation_fn": sizes.activation,
        "no_scale_embedding": not sizes.scale,
        "dropout": 0.1,
        "encoder_normalize_before": False,
    }


def write_fairseq(
    folder: Path,
    sizes: Sizes | None = None,
    *,
    whitespace: Sequence[str] = WHITESPACE,
    num_padding: int = 9,
    seed: int = 0,
) -> Written:
    """Write ``model.pt``, ``dict.txt``, ``encoder.json`` and ``vocab.bpe``, as PyMT5 has them.

    The dictionary is in an order of its own, as counts give it, so that ids are not rows.
    """
    sizes = sizes or Sizes()
    folder.mkdir(parents=True, exist_ok=True)
    tokens = write_bpe(folder, whitespace=whitespace)
    order = [(7 * k + 3) % len(tokens) for k in range(len(tokens))]
    assert len(set(order)) == len(tokens)
    lines = [str(idx) for idx in order] + [f"madeupword{k:04d}" for k in range(num_padding)]
    body = "".join(f"{symbol} {9999 - k}\n" for k, symbol in enumerate(lines))
    (folder / "dict.txt").write_text(body, encoding="utf-8")
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *(tokens[idx] for idx in order)]
    symbols += [*lines[len(order) :], "<mask>"]
    state = make_state(sizes, len(symbols), seed)
    save(folder, state, sizes)
    return Written(folder, state, sizes, symbols)


def save(folder: Path, state: State, sizes: Sizes) -> None:
    """Write ``model.pt`` as fairseq before 0.10 did, with what else stands in it."""
    content = {
        "args": Namespace(**settings(sizes)),
        "model": state,
        "optimizer_history": [{"optimizer_name": "FairseqAdam", "num_updates": 7}],
        "extra_state": {"epoch": 1, "val_loss": 2.5},
        "last_optimizer_state": None,
    }
    torch.save(content, folder / "model.pt")
