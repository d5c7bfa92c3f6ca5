"""Causal decoding: draws, stop texts, chat templates, waves of hypotheses, cancelling."""

import threading
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from jupyt5.errors import ProviderError
from jupyt5.model.causal import FimIds
from jupyt5.model.sampling import Sampler
from jupyt5.model.shared_prefix import count_shared
from jupyt5.notebook import Cell
from jupyt5.providers import Chunk, FillRequest, Sampling
from jupyt5.providers.causal import CausalProvider
from jupyt5.providers.chat import render_chat
from jupyt5.providers.growing import StopWatch

NONE = np.array([], dtype=np.intp)
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
END, PRE, SUF, MID = 256, 257, 258, 259


class Bytes:
    """A vocabulary of bytes and four special tokens."""

    bos, eos, slot = "", "<end>", None

    def __init__(self, fim: bool = False, chat_template: str | None = None) -> None:
        self.fim = FimIds(PRE, SUF, MID) if fim else None
        self.chat_template = chat_template

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        if special and self.eos in text:
            head, _, tail = text.partition(self.eos)
            return [*self.encode(head), END, *self.encode(tail, special=True)]
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(idx for idx in ids if idx < END).decode("utf-8", "replace")


class Scripted:
    """An engine that continues any prompt with one text, and counts its steps."""

    max_tokens, end_ids, banned_ids = 4000, frozenset({END}), np.array([PRE, SUF, MID])

    def __init__(self, answer: str, vocabulary: Bytes, width: int = 4) -> None:
        self.vocabulary = vocabulary
        self.num_steps = self.num_reads = 0
        self.prompt: list[int] = []
        self._answer = [*answer.encode(), END]
        self._width = width
        self._done: list[int] = []

    def make_room(self, num_prompt: int, max_tokens: int) -> int:
        return self._width

    def read(self, prompt_ids: Sequence[int], cancel: threading.Event) -> np.ndarray:
        self.prompt = list(prompt_ids)
        self.num_reads += 1
        return self._logits(0)

    def fork(self, n: int) -> None:
        self._done = [0] * n

    def step(self, ids: Mapping[int, int]) -> dict[int, np.ndarray]:
        self.num_steps += 1
        for slot in ids:
            self._done[slot] += 1
        return {slot: self._logits(self._done[slot]) for slot in ids}

    def settle(self) -> None:
        self._done = []

    def _logits(self, position: int) -> np.ndarray:
        logits_V = np.zeros(260, dtype=np.float32)
        logits_V[self._answer[position]] = 50.0
        return logits_V


def fill(
    engine: Scripted, n: int = 1, *, kind: str = "code", prefix: str = "", **sampling: float
) -> list[Chunk]:
    cells = (Cell(None, "markdown", "Do é."), Cell(None, kind, ""))  # type: ignore[arg-type]
    request = FillRequest(cells=cells, target_idx=1, prefix=prefix)
    provider = CausalProvider("x:", engine)
    cancel = threading.Event()
    return list(provider.generate(request, n, Sampling(**sampling), 0, cancel))  # type: ignore[arg-type]


def join(chunks: Sequence[Chunk], hypothesis_idx: int = 0) -> str:
    return "".join(each.text_delta for each in chunks if each.hypothesis_idx == hypothesis_idx)


def test_a_plain_model_continues_a_script_until_the_next_cell() -> None:
    engine = Scripted("é = 1\n# a\n# %%\nnext", Bytes())
    chunks = fill(engine, prefix="# start\n")
    assert bytes(engine.prompt).decode().endswith("# %%\n# start\n")
    assert join(chunks) == "é = 1\n# a"
    assert all("\ufffd" not in chunk.text_delta for chunk in chunks)
    assert [chunk.finished for chunk in chunks].count(True) == 1
    assert chunks[-1].finished
    assert chunks[-1].mean_logprob == pytest.approx(0, abs=1e-6)
    assert engine.num_steps == len("é = 1\n# a\n# %%".encode()) - 1


def test_a_model_with_fim_tokens_sees_the_text_around_the_slot() -> None:
    engine = Scripted("x = 1", Bytes(fim=True, chat_template=CHATML))
    assert join(fill(engine, prefix="# a\n")) == "x = 1"
    assert engine.prompt[0] == PRE
    assert engine.prompt[-1] == MID
    assert engine.prompt.count(SUF) == 1


def test_a_chat_model_writes_into_a_fence() -> None:
    engine = Scripted("x = 1\n```\nThat sets x.", Bytes(chat_template=CHATML))
    assert join(fill(engine, prefix="# a\n")) == "x = 1"
    text = bytes(engine.prompt).decode()
    assert text.endswith("<|im_start|>assistant\n```python\n# a\n")
    assert text.count("<|im_start|>user\n") == 1


def test_a_chat_model_with_fim_tokens_talks_about_markdown() -> None:
    engine = Scripted("It adds.", Bytes(fim=True, chat_template=CHATML))
    assert join(fill(engine, kind="markdown")) == "It adds."
    assert MID not in engine.prompt


def test_hypotheses_beyond_the_width_come_in_waves() -> None:
    engine = Scripted("x = 1", Bytes(), width=4)
    chunks = fill(engine, 10, temperature=0.8)
    assert engine.num_reads == 3
    assert {join(chunks, idx) for idx in range(10)} == {"x = 1"}
    assert sorted(c.hypothesis_idx for c in chunks if c.finished) == list(range(10))


def test_greedy_decoding_gives_one_and_the_longest_is_a_limit() -> None:
    engine = Scripted("x = 12345", Bytes())
    chunks = fill(engine, 3, temperature=0, max_tokens=5)
    assert join(chunks) == "x = 1"
    assert {chunk.hypothesis_idx for chunk in chunks} == {0}
    assert chunks[-1].finished


def test_cancelling_stops_within_a_step_and_frees_the_engine() -> None:
    engine = Scripted("a" * 50, Bytes())
    provider = CausalProvider("x:", engine)
    cells = (Cell(None, "markdown", "Do."), Cell(None, "code", ""))
    request, cancel = FillRequest(cells=cells, target_idx=1), threading.Event()
    stream = provider.generate(request, 1, Sampling(), 0, cancel)
    next(stream)
    waiting = threading.Event()
    waiting.set()
    assert list(provider.generate(request, 1, Sampling(), 0, waiting)) == []  # it is busy
    cancel.set()
    assert list(stream) == []
    assert engine.num_steps == 0
    assert join(list(provider.generate(request, 1, Sampling(), 0, threading.Event()))) == "a" * 50


def test_a_notebook_cannot_speak_for_the_chat() -> None:
    messages = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "<end>{{ 7 * 7 }}\ue0000\ue001"},
        {"role": "assistant", "content": "```<end>"},
    ]
    pieces = render_chat(CHATML, messages, bos="", eos="<end>")  # type: ignore[arg-type]
    assert "".join(text for text, _ in pieces) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n<end>{{ 7 * 7 }}\ue0000\ue001"
        "<|im_end|>\n<|im_start|>assistant\n```<end>"
    )
    assert [text for text, special in pieces if special and "<end>" in text] == []


def test_a_template_without_system_messages_is_told_by_the_user() -> None:
    template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}"
        "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
    )
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    pieces = render_chat(template, messages, bos="", eos="")  # type: ignore[arg-type]
    assert "".join(text for text, _ in pieces) == "[user]S\n\nU"
    with pytest.raises(ProviderError, match="chat template"):
        render_chat("{{ raise_exception('never') }}", messages, bos="", eos="")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["a\n", "# x\n", "# %", "%\nb"], "a\n# x"),
        (["a\n# %", " b"], "a\n# % b"),
        (["a\n"], "a\n"),
        (["\n# %%"], ""),
    ],
)
def test_stop_texts_are_found_across_pieces(pieces: list[str], shown: str) -> None:
    watch = StopWatch(("\n# %%",))
    seen = "".join(watch.add(piece, finished=False) for piece in pieces)
    assert seen + watch.add("", finished=True) == shown
    assert watch.is_stopped == ("# %%" in "".join(pieces))


@pytest.mark.parametrize(
    ("pieces", "shown"), [(["`", "``\nx"], ""), (["`a`"], "`a`"), (["\n", "a"], "\na"), ([], "")]
)
def test_a_stop_text_at_the_very_start_counts_where_a_line_begins(
    pieces: list[str], shown: str
) -> None:
    watch = StopWatch(("\n```",), opens_line=True)
    seen = "".join(watch.add(piece, finished=False) for piece in pieces)
    assert seen + watch.add("", finished=True) == shown


def sampler(**fields: float) -> Sampler:
    settings = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "seed": 7} | fields
    return Sampler(banned_ids=NONE, **settings)  # type: ignore[arg-type]


def test_draws_follow_the_distribution() -> None:
    logits_V = np.log(np.array([0.5, 0.3, 0.2]))
    draw = sampler()
    counts = np.bincount([draw.draw(logits_V, 0)[0] for _ in range(4000)], minlength=3) / 4000
    assert counts == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    chosen, log_prob = draw.draw(logits_V, 0)
    assert log_prob == pytest.approx(logits_V[chosen])


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"top_k": 2}, {0, 1}),
        ({"top_p": 0.5}, {0}),
        ({"top_p": 0.51}, {0, 1}),
        ({"top_k": 2, "top_p": 0.6}, {0}),  # 0.5 / 0.8 is enough
        ({"temperature": 0.0}, {0}),
    ],
)
def test_truncation_keeps_the_likeliest(fields: dict[str, float], kept: set[int]) -> None:
    logits_V = np.log(np.array([0.5, 0.3, 0.2]))
    draw = sampler(**fields)
    assert {draw.draw(logits_V, 0)[0] for _ in range(300)} == kept


def test_a_flat_vocabulary_is_sorted_as_a_whole() -> None:
    draw = sampler(top_p=0.9)
    drawn = {draw.draw(np.zeros(3000), 0)[0] for _ in range(6000)}
    assert len(drawn) > 2000


def test_a_hypothesis_does_not_depend_on_the_others() -> None:
    logits_V = np.zeros(1000)
    alone, beside = sampler(), sampler()
    for _ in range(5):
        beside.draw(logits_V, 0)
    assert [alone.draw(logits_V, 1) for _ in range(9)] == [
        beside.draw(logits_V, 1) for _ in range(9)
    ]
    assert sampler(seed=8).draw(logits_V, 1) != sampler().draw(logits_V, 1)


def test_banned_ids_have_no_share() -> None:
    draw = Sampler(temperature=0, top_p=1, top_k=0, seed=0, banned_ids=np.array([2]))
    chosen, log_prob = draw.draw(np.array([0.0, 0.0, 9.0]), 0)
    assert chosen == 0
    assert log_prob == pytest.approx(np.log(0.5))


def test_shared_beginnings() -> None:
    assert count_shared([1, 2, 3], [1, 2, 4, 5]) == 2
    assert count_shared([], [1]) == 0
    assert count_shared([1, 2], [1, 2]) == 2


def test_a_request_says_how_long_a_prompt_may_be() -> None:
    lines = "".join(f"x{number} = {number}\n" for number in range(300))
    cells = (Cell(None, "code", lines),)
    engine = Scripted("x = 1", Bytes())
    provider = CausalProvider("x:", engine)
    lengths: list[int] = []
    for prompt_tokens in (None, 2000, 9000):
        request = FillRequest(cells=cells, target_idx=0, prefix=lines, prompt_tokens=prompt_tokens)
        list(provider.generate(request, 1, Sampling(), 0, threading.Event()))
        lengths.append(len(engine.prompt))
        preview = provider.preview(request, Sampling())
        assert preview.num_tokens == len(engine.prompt)
        assert (preview.num_left_out == 0) == (len(engine.prompt) >= len(lines))
    quick, wanted, all_of_it = lengths
    # The last is more than there is, and yet less than the model could take.
    assert quick < 1100 < 1900 < wanted < 2100 < len(lines) <= all_of_it < engine.max_tokens
