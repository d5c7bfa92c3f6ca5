"""Model sizes. All are BART encoder-decoders with tied embeddings and learned positions."""

from dataclasses import dataclass, replace

from jupyt5.errors import UsageError

__all__ = ["PRESETS", "ModelShape", "bart_config", "find_preset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Sizes of a BART model.

    Attributes:
        d_model: Width of the residual stream.
        encoder_layers: Encoder blocks.
        decoder_layers: Decoder blocks.
        num_heads: Attention heads; divides ``d_model``.
        ffn_dim: Width inside the feed-forward blocks.
        max_positions: Longest source and longest target, in tokens.
        vocab_size: Rows of the embedding table.
        dropout: Probability, on residual branches and embeddings.
    """

    d_model: int
    encoder_layers: int
    decoder_layers: int
    num_heads: int
    ffn_dim: int
    max_positions: int
    vocab_size: int
    dropout: float = 0.1


PRESETS = {
    # A few seconds on a CPU: proves that the line holds together, learns little.
    "debug": ModelShape(
        d_model=64, encoder_layers=1, decoder_layers=1, num_heads=2, ffn_dim=128,
        max_positions=512, vocab_size=2048, dropout=0.0,
    ),
    # Trainable on two CPU cores; the bundled model. Chosen by measurement, docs/performance.md.
    "nano": ModelShape(
        d_model=256, encoder_layers=2, decoder_layers=3, num_heads=4, ffn_dim=1024,
        max_positions=1024, vocab_size=8192, dropout=0.0,
    ),
    # BART-base (Lewis et al. 2019, https://arxiv.org/abs/1910.13461), 140M parameters.
    "base": ModelShape(
        d_model=768, encoder_layers=6, decoder_layers=6, num_heads=12, ffn_dim=3072,
        max_positions=1024, vocab_size=50_368,
    ),
    # BART-large with PyMT5's padded whitespace vocabulary: the paper's model, 406M parameters.
    "large": ModelShape(
        d_model=1024, encoder_layers=12, decoder_layers=12, num_heads=16, ffn_dim=4096,
        max_positions=1024, vocab_size=51_200,
    ),
}  # fmt: skip


def find_preset(name: str, *, vocab_size: int | None = None) -> ModelShape:
    """Return a preset, with another vocabulary size if given.

    Raises:
        UsageError: If there is no such preset.
    """
    if name not in PRESETS:
        message = f"There is no model preset {name!r}. Presets: {', '.join(PRESETS)}."
        raise UsageError(message)
    shape = PRESETS[name]
    return replace(shape, vocab_size=vocab_size) if vocab_size else shape


def bart_config(shape: ModelShape, *, pad: int, bos: int, eos: int) -> dict[str, object]:
    """Return the fields of a transformers ``BartConfig`` for a shape and its special ids.

    ``normalize_before`` and ``normalize_embedding`` are spelt out because the CTranslate2
    converter reads them, while transformers 5 no longer defines them.
    """
    return {
        "d_model": shape.d_model,
        "encoder_layers": shape.encoder_layers,
        "decoder_layers": shape.decoder_layers,
        "encoder_attention_heads": shape.num_heads,
        "decoder_attention_heads": shape.num_heads,
        "encoder_ffn_dim": shape.ffn_dim,
        "decoder_ffn_dim": shape.ffn_dim,
        "max_position_embeddings": shape.max_positions,
        "vocab_size": shape.vocab_size,
        "dropout": shape.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "activation_function": "gelu",
        "scale_embedding": False,
        "pad_token_id": pad,
        "bos_token_id": bos,
        "eos_token_id": eos,
        "decoder_start_token_id": eos,
        "forced_eos_token_id": None,
        "tie_word_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": True,
    }
