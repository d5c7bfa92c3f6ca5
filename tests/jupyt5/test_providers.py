"""Providers: URIs, the fake, requests, drafts, and one plan for training and inference."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyt5.errors import ContextError, ProviderError, UsageError
from jupyt5.infilling import plan_example, render_ids
from jupyt5.model.checkpoint import FormatterSettings
from jupyt5.notebook import Cell
from jupyt5.providers import FillRequest, Sampling, list_providers, load_provider, stream_drafts
from jupyt5.providers.base import Chunk
from jupyt5.providers.checkpoint import CheckpointProvider, render_request
from jupyt5.providers.fake import FakeProvider
from jupyt5.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer(["x = 1\nfor a in b:\n    print(a)\n# comment\n"] * 9, 300)


def cell(kind: str, source: str) -> Cell:
    return Cell(None, kind, source)  # type: ignore[arg-type]


CELLS = (
    cell("markdown", "Add the numbers."),
    cell("raw", "raw"),
    cell("code", ""),
    cell("code", "assert total == 3"),
)


def drafts(provider: FakeProvider, **fields: object) -> dict[int, str]:
    request = FillRequest(cells=CELLS, target_idx=2, **fields)  # type: ignore[arg-type]
    stream = stream_drafts(
        provider, request, n=2, sampling=Sampling(), seed=0, cancel=threading.Event()
    )
    return {draft.hypothesis_idx: draft.text for draft in stream if draft.finished}


@pytest.mark.parametrize("uri", ["", "nano", "gpt:4", "http://x", ":"])
def test_a_wrong_uri_is_a_usage_error_that_lists_the_schemes(uri: str) -> None:
    with pytest.raises(UsageError, match="jupyt5:nano"):
        load_provider(uri)


def test_several_fake_answers_follow_hypothesis_and_seed() -> None:
    fake = FakeProvider("text=a&text=b&text=c&logprob=-0.5")
    request = FillRequest(cells=CELLS, target_idx=2)
    answers = [
        [
            (draft.text, draft.mean_logprob)
            for draft in stream_drafts(
                fake, request, n=2, sampling=Sampling(), seed=seed, cancel=threading.Event()
            )
            if draft.finished
        ]
        for seed in (0, 2)
    ]
    assert answers == [[("a", -0.5), ("b", -1.0)], [("c", -0.5), ("a", -1.0)]]


def test_a_missing_model_says_what_there_is() -> None:
    with pytest.raises(ProviderError, match="no model jupyt5:none"):
        load_provider("jupyt5:none")


def test_a_folder_that_is_no_checkpoint_is_named(tmp_path: object) -> None:
    with pytest.raises(ProviderError, match=r"jupyt5\.json"):
        load_provider(f"jupyt5:{tmp_path}")


def test_listing_has_every_scheme() -> None:
    uris = {info.uri for info in list_providers()}
    assert {"fake:", "jupyt5:PATH", "gguf:PATH", "hf:PATH", "openai:MODEL@BASE_URL"} <= uris


@pytest.mark.parametrize(("scheme", "module"), [("gguf", "llama_cpp"), ("hf", "transformers")])
def test_a_runtime_that_is_not_installed_is_named_with_its_command(
    scheme: str, module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    for name in [module, "jupyt5.model.llama_engine", "jupyt5.model.hf_engine"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr("jupyt5.providers.registry.find_spec", lambda name: None)
    with pytest.raises(ProviderError, match=rf"pip install 'jupyt5\[{scheme}\]'"):
        load_provider(f"{scheme}:{path}")
    (info,) = (info for info in list_providers() if info.uri == f"{scheme}:PATH")
    assert not info.available
    assert f"jupyt5[{scheme}]" in info.detail


def test_the_fake_streams_cleans_and_counts() -> None:
    provider = FakeProvider("text=```python%0Atotal%20=%203%0A```")
    assert drafts(provider) == {0: "total = 3", 1: "total = 3"}
    assert provider.num_steps > 2


def test_the_fake_stops_within_one_step() -> None:
    provider = FakeProvider("text=a%20b%20c%20d&slow=1")
    cancel = threading.Event()
    stream = provider.generate(FillRequest(cells=CELLS, target_idx=2), 1, Sampling(), 0, cancel)
    next(stream)
    cancel.set()
    assert list(stream) == []
    assert provider.num_steps == 1


@pytest.mark.parametrize("spec", ["nonsense=1", "slow=fast"])
def test_the_fake_refuses_what_it_does_not_know(spec: str) -> None:
    with pytest.raises(UsageError):
        FakeProvider(spec)


def test_the_fake_can_fail() -> None:
    with pytest.raises(ProviderError):
        drafts(FakeProvider("fail"))


def test_nothing_around_the_target_is_refused() -> None:
    request = FillRequest(cells=(cell("code", ""), cell("markdown", "  ")), target_idx=0)
    stream = stream_drafts(
        FakeProvider(), request, n=1, sampling=Sampling(), seed=0, cancel=threading.Event()
    )
    with pytest.raises(ContextError, match="Markdown"):
        next(stream)


def test_requests_and_sampling_check_their_ranges() -> None:
    with pytest.raises(UsageError, match="no cell 9"):
        FillRequest(cells=CELLS, target_idx=9)
    with pytest.raises(UsageError, match="0 or more"):
        FillRequest(cells=CELLS, target_idx=0, num_context_cells=-1)
    for fields in ({"top_p": 0.0}, {"temperature": -1.0}, {"max_tokens": 0}, {"top_k": -1}):
        with pytest.raises(UsageError, match=next(iter(fields))):
            Sampling(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("gap", ["\n", "\n\n"])
@pytest.mark.parametrize("prefix", ["", "# comment", "# comment\nx = 1"])
@pytest.mark.parametrize("suffix", ["", "\nprint(a)"])
def test_inference_gets_the_ids_of_training(prefix: str, suffix: str, gap: str) -> None:
    """A cell filled live has the source that training would have made of the same cut."""
    body = gap + "for a in b:"
    whole = TOKENIZER.encode(prefix + body + suffix)
    num_prefix = len(TOKENIZER.find_line_ends(TOKENIZER.encode(prefix)))
    num_suffix = len(TOKENIZER.find_line_ends(TOKENIZER.encode(suffix)))
    cells = [cell("markdown", "Loop."), cell("code", "b = [1]"), cell("code", ""), *CELLS[3:]]
    ids = {idx: TOKENIZER.encode(item.source) for idx, item in enumerate(cells)} | {2: whole}
    views = [TOKENIZER.view(item.kind, ids[idx]) for idx, item in enumerate(cells)]
    ends = views[2].line_ends
    views[2] = type(views[2])("code", ends, False, num_prefix, num_suffix)
    plan = plan_example(views, 2, source_budget_tokens=64)
    kinds = {idx: item.kind for idx, item in enumerate(cells)}
    expected = render_ids(plan, ids, kinds, TOKENIZER.special)

    request = FillRequest(
        # A newline ends the prefix, as when the cursor stands at the start of the next line.
        cells=tuple(cells),
        target_idx=2,
        prefix=prefix + gap if prefix else "",
        suffix=suffix,
    )
    settings = FormatterSettings(source_budget_tokens=64)
    source_ids, forced_ids = render_request(request, TOKENIZER, settings)
    if prefix:
        assert TOKENIZER.decode(forced_ids) == gap
    assert source_ids == expected


def test_a_character_is_shown_once_all_its_bytes_are_there() -> None:
    ids = TOKENIZER.encode("é😀")
    assert len(ids) > 2

    class OneAnswer:
        def decode(self, request: object, cancel: threading.Event) -> Iterator[object]:
            from jupyt5.model.decoding import Step

            for idx in ids:
                yield Step(0, idx, -1.0, False)
            yield Step(0, None, -3.0, True)

    provider = CheckpointProvider("x:", TOKENIZER, _meta(), OneAnswer())  # type: ignore[arg-type]
    request = FillRequest(cells=CELLS, target_idx=2)
    chunks: list[Chunk] = list(provider.generate(request, 1, Sampling(), 0, threading.Event()))
    assert "".join(chunk.text_delta for chunk in chunks) == "é😀"
    assert all("\ufffd" not in chunk.text_delta for chunk in chunks)
    assert chunks[-1].finished
    assert chunks[-1].mean_logprob == pytest.approx(-(len(ids) + 3) / (len(ids) + 1))


def _meta() -> object:
    from jupyt5.model.checkpoint import CheckpointMeta

    return CheckpointMeta(name="x", formatter=FormatterSettings())
