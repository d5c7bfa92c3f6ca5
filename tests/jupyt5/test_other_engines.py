"""``hf:`` and ``gguf:`` on tiny random models: state reuse, seeds, cancelling, one truth."""

import importlib.util
import threading
from pathlib import Path

import numpy as np
import pytest

from jupyt5.errors import CheckpointError, ProviderError
from jupyt5.model.causal import CausalEngine
from jupyt5.notebook import Cell
from jupyt5.providers import Chunk, FillRequest, Provider, Sampling, load_provider

pytest.importorskip("transformers")

# The library takes seconds to load.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PROMPTS = [list(range(10, 200)), [*range(10, 150), *range(160, 190)], list(range(50, 100))]
NEVER = threading.Event()


def has_llama() -> bool:
    return all(importlib.util.find_spec(name) for name in ("llama_cpp", "gguf"))


needs_llama = pytest.mark.skipif(not has_llama(), reason="llama-cpp-python or gguf is missing")
KINDS = ["hf", pytest.param("gguf", marks=needs_llama)]


@pytest.fixture(autouse=True)
def use_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of the library wait for each other by spinning: minutes on a busy machine."""
    if has_llama():
        monkeypatch.setattr("jupyt5.model.llama_engine._count_cpus", lambda: 1)


@pytest.fixture(scope="module", name="places")
def write_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from .tiny_models import write_gguf, write_llama, write_t5

    root = tmp_path_factory.mktemp("tiny")
    places = {"hf": write_llama(root / "llama"), "t5": write_t5(root / "t5")}
    places["chat"] = write_llama(root / "chat", chat=True)
    if has_llama():
        places["gguf"] = write_gguf(places["hf"], root / "llama.gguf")
        places["gguf-chat"] = write_gguf(places["chat"], root / "chat.gguf")
    return places


def load_engine(kind: str, places: dict[str, Path]) -> CausalEngine:
    if kind == "hf":
        from jupyt5.model.hf_engine import HfEngine

        return HfEngine(str(places["hf"]))
    from jupyt5.model.llama_engine import LlamaEngine

    return LlamaEngine(places["gguf"])


def ask(
    provider: Provider, n: int = 1, *, seed: int = 0, prefix: str = "", **sampling: float
) -> dict[int, str]:
    cells = (
        Cell(None, "markdown", "Return it <|fim_middle|> now."),
        Cell(None, "code", ""),
        Cell(None, "code", "assert f(1) == 1"),
    )
    request = FillRequest(cells=cells, target_idx=1, prefix=prefix)
    settings = {"max_tokens": 12} | sampling
    chunks: list[Chunk] = list(
        provider.generate(request, n, Sampling(**settings), seed, NEVER)  # type: ignore[arg-type]
    )
    assert sum(chunk.finished for chunk in chunks) == (n if settings.get("temperature") else 1)
    assert all(chunk.mean_logprob is not None for chunk in chunks if chunk.finished)
    texts: dict[int, str] = {}
    for chunk in chunks:
        idx = chunk.hypothesis_idx
        texts[idx] = texts.get(idx, "") + chunk.text_delta
    return texts


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_known_of_a_prompt_changes_no_number(kind: str, places: dict[str, Path]) -> None:
    used = load_engine(kind, places)
    for prompt in [*PROMPTS, PROMPTS[0], PROMPTS[0], PROMPTS[1][:100], [*PROMPTS[2], 7]]:
        logits_V = used.read(prompt, NEVER)
        fresh_V = load_engine(kind, places).read(prompt, NEVER)
        assert logits_V is not None
        assert fresh_V is not None
        np.testing.assert_allclose(logits_V, fresh_V, atol=0.02)
        used.fork(3)
        used.step({0: 20, 1: 30, 2: 40})
        after = used.step({0: 21, 2: 41})
        used.settle()
        expected_V = load_engine(kind, places).read([*prompt, 40, 41], NEVER)
        assert expected_V is not None
        np.testing.assert_allclose(after[2], expected_V, atol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_differs_is_read(kind: str, places: dict[str, Path]) -> None:
    engine = load_engine(kind, places)
    sizes: list[int] = []
    name = "_forward" if kind == "hf" else "_decode"
    inner = getattr(engine, name)

    def count(first: list[object], *others: object) -> object:
        sizes.append(len(first[0]) if kind == "hf" else len(first))  # type: ignore[arg-type]
        return inner(first, *others)

    setattr(engine, name, count)
    read = []
    for prompt in [PROMPTS[0], PROMPTS[0], [*PROMPTS[0], 5, 6], PROMPTS[2], PROMPTS[0]]:
        sizes.clear()
        engine.read(prompt, NEVER)
        read.append(sum(sizes))
    # The same again, two more, another notebook's, and back: that state was put aside.
    assert read[0] == len(PROMPTS[0])
    assert read[1] == 0
    assert read[2] == 2
    assert read[3] == len(PROMPTS[2])
    assert read[4] <= 1


@needs_llama
def test_both_runtimes_tell_the_same(places: dict[str, Path]) -> None:
    hf, llama = load_engine("hf", places), load_engine("gguf", places)
    text = "def f(x):\n    return x  # é <|fim_middle|>"
    assert hf.vocabulary.encode(text) == llama.vocabulary.encode(text)
    assert hf.vocabulary.decode(hf.vocabulary.encode(text)) == text
    assert hf.vocabulary.fim == llama.vocabulary.fim
    assert hf.vocabulary.fim is not None
    assert hf.vocabulary.fim.middle not in hf.vocabulary.encode(text)
    assert hf.end_ids == llama.end_ids
    ids = hf.vocabulary.encode(text)
    hf_V, llama_V = hf.read(ids, NEVER), llama.read(ids, NEVER)
    assert hf_V is not None
    assert llama_V is not None
    np.testing.assert_allclose(hf_V, llama_V, atol=0.05)


@pytest.mark.parametrize(
    "name",
    [
        *("hf", "chat", "t5"),
        pytest.param("gguf", marks=needs_llama),
        pytest.param("gguf-chat", marks=needs_llama),
    ],
)
def test_hypotheses_depend_on_the_seed_alone(name: str, places: dict[str, Path]) -> None:
    scheme = "gguf" if name.startswith("gguf") else "hf"
    provider = load_provider(f"{scheme}:{places[name]}")
    first = ask(provider, 3, temperature=1.0)
    assert len(set(first.values())) > 1
    assert ask(provider, 3, temperature=1.0) == first
    ask(provider, 2, temperature=1.0, prefix="def g(y):\n")
    assert ask(provider, 3, temperature=1.0) == first
    assert ask(provider, 3, seed=1, temperature=1.0) != first
    many = ask(provider, 18, temperature=1.0)
    assert {idx: many[idx] for idx in range(3)} == first


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_request_reads_and_writes_no_more(kind: str, places: dict[str, Path]) -> None:
    engine = load_engine(kind, places)
    cancelled = threading.Event()
    cancelled.set()
    assert engine.read(PROMPTS[0], cancelled) is None
    logits_V, fresh_V = (one.read(PROMPTS[0], NEVER) for one in (engine, load_engine(kind, places)))
    assert logits_V is not None
    assert fresh_V is not None
    np.testing.assert_allclose(logits_V, fresh_V, atol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_that_is_too_long_is_refused(kind: str, places: dict[str, Path]) -> None:
    with pytest.raises(CheckpointError, match="1024"):
        load_engine(kind, places).read([10] * 1024, NEVER)


def test_folders_that_are_no_models_are_named(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match=str(tmp_path)):
        load_provider(f"hf:{tmp_path}")
    with pytest.raises(ProviderError, match="names no model"):
        load_provider("hf:")
    with pytest.raises(ProviderError, match="no file"):
        load_provider(f"gguf:{tmp_path}")


def test_pickled_weights_are_refused(tmp_path: Path, places: dict[str, Path]) -> None:
    import shutil

    import torch

    folder = tmp_path / "pickled"
    shutil.copytree(places["hf"], folder)
    (folder / "model.safetensors").unlink()
    torch.save({"x": 1}, folder / "pytorch_model.bin")
    with pytest.raises(ProviderError, match="safetensors"):
        load_provider(f"hf:{folder}")


@needs_llama
def test_a_file_that_is_no_model_gives_the_librarys_reason(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"not a model at all")
    with pytest.raises(ProviderError, match=r"bad\.gguf cannot be loaded.*magic"):
        load_provider(f"gguf:{path}")


@needs_llama
def test_a_truncated_model_is_refused(tmp_path: Path, places: dict[str, Path]) -> None:
    path = tmp_path / "short.gguf"
    path.write_bytes(places["gguf"].read_bytes()[:-4000])
    with pytest.raises(ProviderError, match="cannot be loaded"):
        load_provider(f"gguf:{path}")


@needs_llama
def test_a_state_grows_with_what_is_asked_of_it(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyt5.model.llama_engine._NUM_CELLS", 256)
    small = load_engine("gguf", places)
    assert small.make_room(200, 28) == 2
    assert small.read(PROMPTS[0], NEVER) is not None
    assert small.make_room(800, 100) == 2  # 1,024 cells
    long = [*PROMPTS[0], *(10 + number % 200 for number in range(610))]
    logits_V = small.read(long, NEVER)
    monkeypatch.undo()
    expected_V = load_engine("gguf", places).read(long, NEVER)
    assert logits_V is not None
    assert expected_V is not None
    np.testing.assert_allclose(logits_V, expected_V, atol=0.02)
    with pytest.raises(CheckpointError, match=r"1025 tokens .* takes 1024"):
        small.make_room(1000, 25)
    assert small.make_room(1000, 24) == 1
    assert small.read(PROMPTS[1], NEVER) is not None


@needs_llama
def test_a_state_that_cannot_grow_serves_on(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyt5.model import llama_engine

    monkeypatch.setattr("jupyt5.model.llama_engine._NUM_CELLS", 256)
    engine = load_engine("gguf", places)
    expected_V = engine.read(PROMPTS[0], NEVER)
    assert expected_V is not None
    with monkeypatch.context() as patch:
        patch.setattr(llama_engine.llama_cpp, "llama_init_from_model", lambda *_: None)
        with pytest.raises(CheckpointError, match="no room for 1024 tokens"):
            engine.make_room(900, 100)
    assert engine.make_room(200, 56) == 1
    logits_V = engine.read(PROMPTS[0], NEVER)
    assert logits_V is not None
    np.testing.assert_array_equal(logits_V, expected_V)


def test_long_prompts_leave_room_for_fewer_hypotheses(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from .tiny_models import HEADS, KV_HEADS, WIDTH

    engine = load_engine("hf", places)
    assert engine.make_room(100, 100) == 16
    token_bytes = 2 * 2 * KV_HEADS * WIDTH // HEADS * 4  # two layers, keys and values, float32
    monkeypatch.setattr("jupyt5.model.hf_engine._STATE_BYTES", 3 * 200 * token_bytes)
    assert engine.make_room(100, 100) == 3
    assert engine.make_room(900, 100) == 1
