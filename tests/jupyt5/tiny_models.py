"""A tiny random Llama as a folder of transformers and as a GGUF file, and a tiny random T5."""

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

SPECIAL = ("<pad>", "</s>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ROWS = 320
HEADS, KV_HEADS, WIDTH = 4, 2, 32


def write_llama(folder: Path, *, seed: int = 0, chat: bool = False) -> Path:
    """Write a folder that ``hf:`` reads; its tokenizer has FIM tokens or a chat template."""
    special = ("<pad>", "</s>", "<|im_start|>", "<|im_end|>") if chat else SPECIAL
    tokenizer = _make_tokenizer(special)
    if chat:
        tokenizer.chat_template = CHATML
    config = LlamaConfig(
        vocab_size=ROWS,
        hidden_size=WIDTH,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=1024,
        eos_token_id=1,
        bos_token_id=None,
        pad_token_id=0,
        initializer_range=0.3,  # so that choices do not hang on rounding
    )
    torch.manual_seed(seed)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_t5(folder: Path) -> Path:
    """Write an encoder-decoder model whose tokenizer has sentinels."""
    tokenizer = _make_tokenizer(("<pad>", "</s>", "<extra_id_0>", "<extra_id_1>"))
    config = T5Config(
        vocab_size=ROWS,
        d_model=WIDTH,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=HEADS,
        decoder_start_token_id=0,  # pyright: ignore[reportCallIssue]
        eos_token_id=1,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_gguf(folder: Path, path: Path) -> Path:
    """Write the weights of ``write_llama`` as a GGUF file."""
    import gguf

    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(1024)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(2)
    writer.add_feed_forward_length(64)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(model.config.rms_norm_eps)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    _add_tokenizer(writer, tokenizer)
    for name, tensor in model.state_dict().items():
        writer.add_tensor(_rename(name), _permute(name, tensor.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _make_tokenizer(special: tuple[str, ...]) -> PreTrainedTokenizerFast:
    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator(["def f(x):\n    return x\n# %% cell\n"] * 5, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=engine,
        eos_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=list(special[2:]),
    )


def _add_tokenizer(writer: object, tokenizer: PreTrainedTokenizerFast) -> None:
    import json

    import gguf

    assert isinstance(writer, gguf.GGUFWriter)
    engine = json.loads(tokenizer.backend_tokenizer.to_str())  # type: ignore[union-attr]
    names = {idx: token for token, idx in tokenizer.get_vocab().items()}
    special = {idx for idx, token in tokenizer.added_tokens_decoder.items() if token.special}
    tokens = [names.get(idx, f"<unused{idx}>") for idx in range(ROWS)]
    control, normal, unused = (
        gguf.TokenType.CONTROL,
        gguf.TokenType.NORMAL,
        gguf.TokenType.UNUSED,
    )
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(
        [control if i in special else normal if i in names else unused for i in range(ROWS)]
    )
    writer.add_token_merges([" ".join(pair) for pair in engine["model"]["merges"]])
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)
    if tokenizer.chat_template:
        writer.add_chat_template(str(tokenizer.chat_template))


def _rename(name: str) -> str:
    for old, new in (
        ("model.embed_tokens", "token_embd"),
        ("lm_head", "output"),
        ("model.norm", "output_norm"),
        ("model.layers.", "blk."),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("post_attention_layernorm", "ffn_norm"),
        ("input_layernorm", "attn_norm"),
    ):
        name = name.replace(old, new)
    return name


def _permute(name: str, weight: np.ndarray) -> np.ndarray:
    """Put the rows of queries and keys in llama.cpp's order of rotary pairs."""
    heads = HEADS if "q_proj" in name else KV_HEADS if "k_proj" in name else 0
    if not heads:
        return weight
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, weight.shape[1])
    return halves.swapaxes(1, 2).reshape(weight.shape)
