"""Latency of filling a cell: first text and whole cell, beside transformers' ``generate``.

Targets are solution cells of real notebooks (a problem set's ``problems.jsonl``). With
``--peer FOLDER`` the same weights in torch decode the same sources greedily through
``generate``, one after the other in the same run, so the ratio means something on a noisy
machine. Prints JSON.

    python tests/benchmarks/bench_fill_latency.py --problems ../shared/data/dsp
"""

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jupyt5.notebook import read_notebook
from jupyt5.providers import FillRequest, Provider, Sampling, load_provider, stream_drafts
from jupyt5.providers.checkpoint import render_request
from jupyt5.tokenizer import Tokenizer


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--problems", type=Path, required=True, help="folder of a problem set")
    parser.add_argument("--provider", default="jupyt5:nano")
    parser.add_argument("--peer", type=Path, help="checkpoint folder with model.safetensors")
    parser.add_argument("--targets", type=int, default=50)
    parser.add_argument("--max-tokens", type=int, default=64)
    args = parser.parse_args(argv)
    requests = _find_requests(args.problems, args.targets)
    start_s = time.perf_counter()
    provider = load_provider(args.provider)
    load_s = time.perf_counter() - start_s
    sampled, greedy = _fill(provider, args.max_tokens, 0.8), _fill(provider, args.max_tokens, 0.0)
    peer = _peer(args.peer, args.max_tokens) if args.peer else None
    rows: dict[str, list[float]] = {}
    sampled(requests[0])
    for request in requests:
        for name, measure in (("sampled", sampled), ("greedy", greedy)):
            first_s, whole_s, _ = measure(request)
            rows.setdefault(f"{name}_first_text", []).append(first_s)
            rows.setdefault(f"{name}_whole_cell", []).append(whole_s)
        if peer is not None:
            rows.setdefault("transformers_generate_greedy", []).append(peer(request))
    report: dict[str, object] = {
        "provider": args.provider,
        "targets": len(requests),
        "max_tokens": args.max_tokens,
        "load_s": round(load_s, 3),
        **{f"{name}_s": _spread(values) for name, values in rows.items()},
    }
    if peer is not None:
        ratios = [
            theirs / ours
            for theirs, ours in zip(
                rows["transformers_generate_greedy"], rows["greedy_whole_cell"], strict=True
            )
        ]
        report["peer_over_ours_median"] = round(statistics.median(ratios), 2)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


def _find_requests(folder: Path, count: int) -> list[FillRequest]:
    lines = (folder / "problems.jsonl").read_text("utf-8").splitlines()
    requests: list[FillRequest] = []
    for line in lines[:: max(1, len(lines) // count)][:count]:
        problem = json.loads(line)
        cells = read_notebook(folder / problem["notebook_path"]).cells
        requests.append(FillRequest(cells=cells, target_idx=problem["cell_index"]))
    return requests


def _fill(
    provider: Provider, max_tokens: int, temperature: float
) -> Callable[[FillRequest], tuple[float, float, int]]:
    sampling = Sampling(temperature=temperature, max_tokens=max_tokens)

    def measure(request: FillRequest) -> tuple[float, float, int]:
        start_s, first_s, count = time.perf_counter(), 0.0, 0
        stream = stream_drafts(
            provider,
            request,
            n=1,
            sampling=sampling,
            seed=0,
            cancel=threading.Event(),
        )
        for draft in stream:
            count += 1
            if draft.text and not first_s:
                first_s = time.perf_counter() - start_s
        whole_s = time.perf_counter() - start_s
        return first_s or whole_s, whole_s, count

    return measure


def _peer(folder: Path, max_tokens: int) -> Callable[[FillRequest], float]:
    import torch

    from jupyt5.model.checkpoint import read_meta
    from jupyt5.model.seq2seq import load_model

    model = load_model(folder).eval()
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    settings = read_meta(folder).formatter

    def measure(request: FillRequest) -> float:
        source_ids, _ = render_request(request, tokenizer, settings)
        start_s = time.perf_counter()
        with torch.inference_mode():
            model.generate(  # pyright: ignore[reportAttributeAccessIssue]
                torch.tensor([source_ids]),
                max_new_tokens=max_tokens,
                do_sample=False,
                num_beams=1,
            )
        return time.perf_counter() - start_s

    return measure


def _spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered), 4),
        "p95": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 4),
    }


if __name__ == "__main__":
    sys.exit(main())
