"""Decoding: onnxruntime and CTranslate2 (int8) beside transformers' ``generate`` (float32).

With ``--random`` the weights are random, of the sizes that docs/performance.md promises for, 768
source ids and 64 target ids. With ``--checkpoint`` the sources are real: solution cells of a
problem set; then greedy agreement with float32 is counted too. All sides take turns in one run.
Prints JSON; times are wall seconds, medians.

    python tests/benchmarks/bench_decode.py --random 10M 30M --threads 2
    python tests/benchmarks/bench_decode.py --checkpoint RUN/model --problems ../shared/data/dsp
"""

# pyright: basic
import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jupyt5.model.checkpoint import CheckpointMeta, FormatterSettings, read_meta, write_meta
from jupyt5.model.ct2_engine import Ct2Engine
from jupyt5.model.decoding import DecodeRequest, Engine
from jupyt5.model.export import export_ctranslate2, export_onnx
from jupyt5.model.onnx_engine import OnnxEngine
from jupyt5.model.presets import ModelShape
from jupyt5.model.seq2seq import build_model, load_model, save_model
from jupyt5.model.torch_engine import TorchEngine
from jupyt5.notebook import read_notebook
from jupyt5.providers import FillRequest
from jupyt5.providers.checkpoint import render_request
from jupyt5.tokenizer import Tokenizer

# Width, layers on either side, heads: the sizes measured in the promise, with 32k ids.
SIZES = {"10M": (192, 3, 3), "30M": (384, 4, 6), "60M": (512, 6, 8)}
NUM_ROWS, SOURCE_LENGTH, TARGET_LENGTH = 32_768, 768, 64
NANO_TOKENIZER = Path("jupyt5/bundled/nano/tokenizer.json")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--random", nargs="*", default=[], choices=sorted(SIZES))
    parser.add_argument("--checkpoint", type=Path, help="folder with model.safetensors")
    parser.add_argument("--problems", type=Path, help="folder of a problem set")
    parser.add_argument("--targets", type=int, default=500)
    parser.add_argument("--timed", type=int, default=40, help="targets that are timed")
    parser.add_argument("--rounds", type=int, default=7, help="of each random model")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    report: dict[str, object] = {"threads": args.threads}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.random:
            report[name] = _measure_random(name, Path(folder) / name, args)
        if args.checkpoint:
            report["checkpoint"] = _measure_checkpoint(Path(folder) / "own", args)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


class Sides:
    """One checkpoint, loaded by every runtime."""

    def __init__(self, checkpoint: Path, work: Path, threads: int) -> None:
        self.tokenizer = Tokenizer.load(checkpoint / "tokenizer.json")
        for kind in ("int8", "float32"):
            export_onnx(checkpoint, work / f"onnx-{kind}", kind)
            export_ctranslate2(checkpoint, work / f"ct2-{kind}", kind)
        own: dict[str, Any] = {"num_threads": threads}
        self.engines: dict[str, Engine] = {
            "onnx int8": OnnxEngine(work / "onnx-int8", self.tokenizer, copies=False, **own),
            "onnx int8 copying": OnnxEngine(work / "onnx-int8", self.tokenizer, **own),
            "onnx float32": OnnxEngine(work / "onnx-float32", self.tokenizer, copies=False, **own),
            "ct2 int8": Ct2Engine(work / "ct2-int8", self.tokenizer, **own),
            "ct2 float32": Ct2Engine(work / "ct2-float32", self.tokenizer, **own),
            "torch": TorchEngine(checkpoint, self.tokenizer),
        }
        self.model: Any = load_model(checkpoint).eval()
        self.sizes_mb = {
            name: round(sum(p.stat().st_size for p in (work / name).iterdir()) / 1e6, 1)
            for name in ("onnx-int8", "ct2-int8")
        }

    def generate(self, request: DecodeRequest) -> list[int]:
        """Answer greedily with transformers' own loop, under the engines' rules."""
        eos = self.tokenizer.special.eos
        with torch.inference_mode():
            ids = self.model.generate(
                torch.tensor([list(request.source_ids)]),
                max_new_tokens=request.max_tokens,
                do_sample=False,
                num_beams=1,
                suppress_tokens=sorted(self.tokenizer.special_id_set - {eos}),
                begin_suppress_tokens=[eos],
            )
        return ids[0].tolist()

    def decode(self, name: str, request: DecodeRequest) -> list[int | None]:
        """Answer by one engine, forgetting what it remembers of the source."""
        engine = self.engines[name]
        if isinstance(engine, OnnxEngine):
            engine._encoded.clear()
        return [step.token_id for step in engine.decode(request, threading.Event())]


def _measure_random(name: str, work: Path, args: argparse.Namespace) -> dict[str, object]:
    width, layers, heads = SIZES[name]
    shape = ModelShape(
        d_model=width, encoder_layers=layers, decoder_layers=layers, num_heads=heads,
        ffn_dim=4 * width, max_positions=1024, vocab_size=NUM_ROWS, dropout=0.0,
    )  # fmt: skip
    tokenizer = Tokenizer.load(NANO_TOKENIZER)
    checkpoint = work / "checkpoint"
    checkpoint.mkdir(parents=True)
    model = build_model(shape, tokenizer.special, seed=0)
    model.final_logits_bias[0, tokenizer.special.eos] = -1e4  # all answers are of equal length
    save_model(model, checkpoint)
    tokenizer.save(checkpoint / "tokenizer.json")
    write_meta(checkpoint, CheckpointMeta(name=name, formatter=FormatterSettings()))
    sides = Sides(checkpoint, work, args.threads)
    rng = np.random.default_rng(0)
    requests = [
        DecodeRequest(
            source_ids=rng.integers(10, tokenizer.vocab_size, SOURCE_LENGTH).tolist(),
            max_tokens=TARGET_LENGTH,
        )
        for _ in range(args.rounds)
    ]
    sizes = {"parameters": sum(p.numel() for p in model.parameters()), **sides.sizes_mb}
    return {**sizes, **_time(sides, requests)}


def _measure_checkpoint(work: Path, args: argparse.Namespace) -> dict[str, object]:
    sides = Sides(args.checkpoint, work, args.threads)
    settings = read_meta(args.checkpoint).formatter
    requests: list[DecodeRequest] = []
    for request in _find_targets(args.problems, args.targets):
        source_ids, forced_ids = render_request(request, sides.tokenizer, settings)
        assert not forced_ids
        requests.append(DecodeRequest(source_ids=source_ids, max_tokens=TARGET_LENGTH))
    timed = requests[:: max(1, len(requests) // args.timed)]
    return {
        "targets": len(requests),
        "timed": len(timed),
        **sides.sizes_mb,
        **_time(sides, timed),
        "agreement": _agree(sides, requests),
    }


def _find_targets(folder: Path, count: int) -> list[FillRequest]:
    lines = (folder / "problems.jsonl").read_text("utf-8").splitlines()[:count]
    requests: list[FillRequest] = []
    for line in lines:
        problem = json.loads(line)
        cells = read_notebook(folder / problem["notebook_path"]).cells
        requests.append(FillRequest(cells=cells, target_idx=problem["cell_index"]))
    return requests


def _time(sides: Sides, requests: Sequence[DecodeRequest]) -> dict[str, object]:
    ways: dict[str, Callable[[DecodeRequest], object]] = {
        "transformers generate": lambda request: sides.generate(request),
        "torch engine": lambda request: sides.decode("torch", request),
    }
    for name in ("onnx int8", "onnx int8 copying", "ct2 int8"):
        ways |= {
            f"{name}: greedy": lambda request, name=name: sides.decode(name, request),
            f"{name}: one": lambda request, name=name: sides.decode(name, _sampled(request, 1)),
            f"{name}: ten": lambda request, name=name: sides.decode(name, _sampled(request, 10)),
            f"{name}: first id": lambda request, name=name: sides.decode(
                name, replace(request, temperature=0, max_tokens=1)
            ),
        }
    ways["onnx int8: greedy, source known"] = lambda request: list(
        sides.engines["onnx int8"].decode(replace(request, temperature=0), threading.Event())
    )
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for idx, request in enumerate([requests[0], *requests]):
        for name, way in ways.items():
            asked = request if ":" in name and "greedy" not in name else _greedy(request)
            if "known" in name:
                list(sides.engines["onnx int8"].decode(asked, threading.Event()))
            start_s = time.perf_counter()
            way(asked)
            if idx:  # the first warms up
                seconds[name].append(time.perf_counter() - start_s)
    peer = seconds["transformers generate"]
    return {
        "seconds": {name: round(statistics.median(values), 4) for name, values in seconds.items()},
        "generate_over": {
            name: round(statistics.median(np.divide(peer, seconds[f"{name}: greedy"])), 2)
            for name in ("onnx int8", "onnx int8 copying", "ct2 int8")
        },
        "ten_over_one": {
            name: round(
                statistics.median(np.divide(seconds[f"{name}: ten"], seconds[f"{name}: one"])), 2
            )
            for name in ("onnx int8", "ct2 int8")
        },
    }


def _agree(sides: Sides, requests: Sequence[DecodeRequest]) -> dict[str, dict[str, float]]:
    """Count greedy answers, and ids up to the first that differs, equal to float32's in torch."""
    counts = {name: [0, 0, 0] for name in sides.engines if name != "torch"}
    for request in requests:
        expected = sides.decode("torch", _greedy(request))
        for name, count in counts.items():
            actual = sides.decode(name, _greedy(request))
            pairs = zip(expected, actual, strict=False)
            num_equal = next((k for k, (a, b) in enumerate(pairs) if a != b), len(expected))
            count[0] += actual == expected
            count[1] += num_equal
            count[2] += len(expected)
    return {
        name: {"whole": round(whole / len(requests), 4), "ids": round(equal / ids, 4)}
        for name, (whole, equal, ids) in counts.items()
    }


def _greedy(request: DecodeRequest) -> DecodeRequest:
    return replace(request, temperature=0)


def _sampled(request: DecodeRequest, n: int) -> DecodeRequest:
    return replace(request, n=n)


if __name__ == "__main__":
    sys.exit(main())
