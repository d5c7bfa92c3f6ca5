"""``jupyt5:`` providers: a checkpoint folder, decoded by the runtime its weights are for."""

import threading
from collections.abc import Iterator
from pathlib import Path

from jupyt5.errors import CheckpointError, ProviderError
from jupyt5.infilling import count_left_out, plan_example, render_ids, split_prefix
from jupyt5.model.checkpoint import (
    TOKENIZER_NAME,
    CheckpointMeta,
    FormatterSettings,
    detect_runtime,
    read_meta,
)
from jupyt5.model.decoding import DecodeRequest, Engine
from jupyt5.providers.base import Chunk, FillRequest, Preview, Sampling
from jupyt5.providers.growing import GrowingText
from jupyt5.providers.texts import find_window
from jupyt5.tokenizer import Tokenizer

__all__ = ["CheckpointProvider", "load_checkpoint_provider", "render_request"]


class CheckpointProvider:
    """Plans a request, decodes it and turns ids back into text."""

    def __init__(
        self, uri: str, tokenizer: Tokenizer, meta: CheckpointMeta, engine: Engine
    ) -> None:
        self.uri = uri
        self.meta = meta
        self._tokenizer = tokenizer
        self._engine = engine

    def generate(
        self,
        request: FillRequest,
        n: int,
        sampling: Sampling,
        seed: int,
        cancel: threading.Event,
    ) -> Iterator[Chunk]:
        """Stream hypotheses; see ``Provider.generate``. Greedy decoding gives just one."""
        source_ids, forced_ids = render_request(request, self._tokenizer, self.meta.formatter)
        room = self.meta.formatter.max_target_tokens - len(forced_ids)
        decode = DecodeRequest(
            source_ids=source_ids,
            forced_ids=forced_ids,
            n=n,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_tokens=max(1, min(sampling.max_tokens, room)),
            seed=seed,
        )
        texts: dict[int, GrowingText] = {}
        try:
            for step in self._engine.decode(decode, cancel):
                text = texts.setdefault(
                    step.hypothesis_idx, GrowingText(self._tokenizer.decode, forced_ids)
                )
                delta = text.add(step.token_id, step.log_prob, finished=step.finished)
                mean = text.mean_logprob if step.finished else None
                yield Chunk(step.hypothesis_idx, delta, step.finished, mean)
        except CheckpointError as exc:
            raise ProviderError(str(exc)) from exc

    def preview(self, request: FillRequest, sampling: Sampling) -> Preview:
        """Return the source, and what the target must begin with; see ``Provider.preview``."""
        del sampling
        tokenizer = self._tokenizer
        source_ids, forced_ids, num_left_out = _render(request, tokenizer, self.meta.formatter)
        text = ""
        for is_special, ids in _split_special(source_ids, tokenizer.special_id_set):
            if is_special:  # on a line of its own
                text += "\n" * (not text.endswith("\n")) + f"{tokenizer.tokens[ids[0]]}\n"
            else:
                text += tokenizer.decode(ids)
        if forced_ids:
            text += f"→ {tokenizer.decode(forced_ids).lstrip()}"
        return Preview(text.strip("\n"), len(source_ids) + len(forced_ids), num_left_out)


def load_checkpoint_provider(folder: Path, *, uri: str) -> CheckpointProvider:
    """Load a checkpoint folder as a provider.

    Raises:
        ProviderError: If it is missing, damaged, or needs torch and torch is not installed.
    """
    try:
        meta = read_meta(folder)
        tokenizer = Tokenizer.load(folder / TOKENIZER_NAME)
        engine = _load_engine(folder, tokenizer)
    except CheckpointError as exc:
        raise ProviderError(str(exc)) from exc
    return CheckpointProvider(uri, tokenizer, meta, engine)


def render_request(
    request: FillRequest, tokenizer: Tokenizer, settings: FormatterSettings
) -> tuple[list[int], list[int]]:
    """Return (source ids, ids the target must begin with) of a request.

    The same plan as in training: whole lines before the cursor stand in the source, the open
    line is forced upon the decoder.
    """
    source_ids, forced_ids, _ = _render(request, tokenizer, settings)
    return source_ids, forced_ids


def _render(
    request: FillRequest, tokenizer: Tokenizer, settings: FormatterSettings
) -> tuple[list[int], list[int], int]:
    """Return what ``render_request`` does, and how many tokens of cells had no room."""
    whole_lines, open_line = split_prefix(request.prefix)
    prefix_ids, suffix_ids = tokenizer.encode(whole_lines), tokenizer.encode(request.suffix)
    window = find_window(request)
    cells = [request.cells[idx] for idx in window]
    target = window.index(request.target_idx)
    ids = {idx: tokenizer.encode(cell.source) for idx, cell in enumerate(cells) if idx != target}
    views = [
        tokenizer.target_view(cell.kind, prefix_ids, suffix_ids)
        if idx == target
        else tokenizer.view(cell.kind, ids[idx], blank=not cell.source.strip())
        for idx, cell in enumerate(cells)
    ]
    budget_tokens = settings.source_budget_tokens
    plan = plan_example(
        views,
        target,
        num_context_cells=request.num_context_cells,
        num_following_cells=request.num_following_cells,
        source_budget_tokens=min(request.prompt_tokens or budget_tokens, budget_tokens),
        skip_blank=request.skip_blank,
    )
    ids[target] = prefix_ids + suffix_ids
    kinds = {idx: cell.kind for idx, cell in enumerate(cells)}
    source_ids = render_ids(plan, ids, kinds, tokenizer.special)
    return source_ids, tokenizer.encode(open_line), count_left_out(plan, views)


def _split_special(ids: list[int], special: frozenset[int]) -> Iterator[tuple[bool, list[int]]]:
    """Yield runs of ordinary ids, and each special id alone."""
    run: list[int] = []
    for token_id in ids:
        if token_id in special:
            yield False, run
            yield True, [token_id]
            run = []
        else:
            run.append(token_id)
    yield False, run


def _load_engine(folder: Path, tokenizer: Tokenizer) -> Engine:
    runtime = detect_runtime(folder)
    if runtime == "ctranslate2":
        from jupyt5.model.ct2_engine import Ct2Engine

        return Ct2Engine(folder, tokenizer)
    if runtime == "onnx":
        from jupyt5.model.onnx_engine import OnnxEngine

        return OnnxEngine(folder, tokenizer)
    try:
        from jupyt5.model.torch_engine import TorchEngine
    except ImportError as exc:
        message = (
            f"{folder} holds torch weights and torch is not installed. Install it with "
            "pip install 'jupyt5[train]', or export the folder: jupyt5 export FOLDER "
            "--to ctranslate2 --out DIR"
        )
        raise ProviderError(message) from exc
    return TorchEngine(folder, tokenizer)
