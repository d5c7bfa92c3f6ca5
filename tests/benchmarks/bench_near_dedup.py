"""Near-duplicates: our arrays against datasketch's plain loop, in turn, and recall at known edits.

Both sides use word 5-grams inside cells, 112 permutations, 14 bands of 8 rows and the threshold
0.7 on the estimate; words, and so the n-grams, are cut alike. The plain loop is datasketch's own
documented use: ``update`` for each n-gram of a notebook, ``insert`` and ``query``; its batched form
stands beside it. Times are processor times, so a busy machine disturbs them little. Needs a
finished corpus and ``pip install datasketch``. Prints JSON.

    python tests/benchmarks/bench_near_dedup.py CORPUS
    python tests/benchmarks/bench_near_dedup.py CORPUS --notebooks 4000 --no-peer
"""
# datasketch and pyarrow come without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import argparse
import json
import platform
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from jupyt5_corpus.benchmark_index import load_bundled
from jupyt5_corpus.filters.overlap import find_overlap
from jupyt5_corpus.fingerprint import Fingerprint, fingerprint
from jupyt5_corpus.minhash import (
    MIN_NGRAMS,
    NUM_BANDS,
    NUM_PERMUTATIONS,
    NUM_ROWS,
    THRESHOLD,
    band_key,
)
from jupyt5_corpus.near_duplicates import choose_representatives, find_pairs, merge_pairs
from jupyt5_corpus.row import CellText
from jupyt5_corpus.shards import iter_row_groups, require_manifest, shard_paths

Notebook = tuple[CellText, ...]
Pair = tuple[int, int]

HAN_AND_KANA = r"\u2e80-\u312f\u3190-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"[{HAN_AND_KANA}]|[^\W{HAN_AND_KANA}]+")
NGRAM_SIZE = 5
FRACTIONS = (0.01, 0.05, 0.2, 0.5)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("corpus", type=Path, help="folder that `jupyt5-corpus build` made")
    parser.add_argument("--notebooks", type=int, default=1000, help="notebooks of it (evenly)")
    parser.add_argument("--edited", type=int, default=300, help="notebooks to edit")
    parser.add_argument("--no-peer", action="store_true", help="leave datasketch out")
    args = parser.parse_args(argv)
    notebooks = read_notebooks(args.corpus, args.notebooks)
    report: dict[str, object] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "notebooks": len(notebooks),
        "words_each": round(sum(map(count_words, notebooks)) / len(notebooks)),
        **compare(notebooks, with_peer=not args.no_peer),
        "overlap_ms_each": measure_overlap(notebooks),
        "recall_at_edits": measure_recall(notebooks, args.edited),
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


def read_notebooks(folder: Path, limit: int) -> list[Notebook]:
    """Read about ``limit`` notebooks, evenly from the whole corpus."""
    manifest = require_manifest(folder)
    step = max(1, int(str(manifest["notebooks_kept"])) // limit)
    rows = (
        cells
        for path in shard_paths(folder, manifest)
        for table in iter_row_groups(path, ["cells"])
        for cells in table["cells"].to_pylist()
    )
    chosen = [cells for place, cells in enumerate(rows) if place % step == 0][:limit]
    return [tuple(CellText(**cell) for cell in cells) for cells in chosen]


def count_words(notebook: Notebook) -> int:
    return sum(len(WORD.findall(cell.source)) for cell in notebook)


# --- both sides ---------------------------------------------------------------------------------


def compare(notebooks: Sequence[Notebook], *, with_peer: bool) -> dict[str, object]:
    """Time both sides, notebook by notebook in turn, then their clustering."""
    sides: dict[str, Callable[[Notebook], object]] = {"ours": fingerprint}
    if with_peer:
        sides |= {"datasketch": sign_plainly, "datasketch, batched": sign_batched}
    signed: dict[str, list[object]] = {name: [] for name in sides}
    sign_s = dict.fromkeys(sides, 0.0)
    for sign in sides.values():
        sign(notebooks[0])
    for notebook in notebooks:
        for name, sign in sides.items():
            start_s = time.process_time()
            signed[name].append(sign(notebook))
            sign_s[name] += time.process_time() - start_s
    pairs: dict[str, set[Pair]] = {}
    pair_s: dict[str, float] = {}
    for name, results in signed.items():
        start_s = time.process_time()
        pairs[name] = pair_ours(results) if name == "ours" else pair_plainly(results)
        pair_s[name] = time.process_time() - start_s
    total_s = {name: sign_s[name] + pair_s[name] for name in sides}
    return {
        "sign_ms_each": {name: 1000 * each / len(notebooks) for name, each in sign_s.items()},
        "pair_ms_each": {name: 1000 * each / len(notebooks) for name, each in pair_s.items()},
        "pairs": {name: len(each) for name, each in pairs.items()},
        "pairs_in_common": {name: len(each & pairs["ours"]) for name, each in pairs.items()},
        "times_faster": {name: each / total_s["ours"] for name, each in total_s.items()},
    }


def pair_ours(results: Sequence[object]) -> set[Pair]:
    """Find the pairs and choose who stays, as a build does."""
    signatures = np.array([each.signature for each in results if isinstance(each, Fingerprint)])
    pairs = merge_pairs(
        find_pairs(band_key(signatures[:, NUM_ROWS * band : NUM_ROWS * (band + 1)]), signatures)
        for band in range(NUM_BANDS)
    )
    choose_representatives(pairs, np.arange(len(results), dtype=np.uint32), signatures)
    return {(one, other) for one, other in pairs.tolist()}


def plain_ngrams(notebook: Notebook) -> Iterator[bytes]:
    for cell in notebook:
        words = WORD.findall(cell.source.lower())
        for place in range(max(1, len(words) - NGRAM_SIZE + 1) if words else 0):
            yield " ".join(words[place : place + NGRAM_SIZE]).encode("utf-8", "replace")


def comparable_ngrams(notebook: Notebook) -> set[bytes]:
    """Return nothing for notebooks that are too small to be compared, here as there."""
    ngrams = set(plain_ngrams(notebook))
    return ngrams if len(ngrams) >= MIN_NGRAMS else set()


def sign_plainly(notebook: Notebook) -> object:
    """Sign as datasketch's documentation does."""
    from datasketch import MinHash

    signature = MinHash(num_perm=NUM_PERMUTATIONS)
    for ngram in comparable_ngrams(notebook):
        signature.update(ngram)
    return signature


def sign_batched(notebook: Notebook) -> object:
    from datasketch import MinHash

    signature = MinHash(num_perm=NUM_PERMUTATIONS)
    signature.update_batch(list(comparable_ngrams(notebook)))
    return signature


def pair_plainly(results: Sequence[object]) -> set[Pair]:
    """Insert and query one after the other, and verify by the estimate."""
    from datasketch import MinHash, MinHashLSH

    lsh = MinHashLSH(num_perm=NUM_PERMUTATIONS, params=(NUM_BANDS, NUM_ROWS))
    found: set[Pair] = set()
    signatures = [each for each in results if isinstance(each, MinHash)]
    for place, signature in enumerate(signatures):
        if signature.is_empty():
            continue
        found.update(
            (other, place)
            for other in cast("list[int]", lsh.query(signature))
            if signatures[other].jaccard(signature) >= THRESHOLD
        )
        lsh.insert(place, signature)
    return found


# --- overlap and recall -------------------------------------------------------------------------


def measure_overlap(notebooks: Sequence[Notebook]) -> float:
    """Return the milliseconds that the search for benchmark problems takes, words given."""
    index = load_bundled()
    total_s = 0.0
    for notebook in notebooks:
        words = fingerprint(notebook).words
        start_s = time.process_time()
        find_overlap(words, index)
        total_s += time.process_time() - start_s
    return 1000 * total_s / len(notebooks)


def measure_recall(notebooks: Sequence[Notebook], limit: int) -> dict[str, dict[str, object]]:
    """Edit notebooks of 100 words and more; count those that are still found."""
    rng = random.Random(0)
    originals = [each for each in notebooks if count_words(each) >= 100][:limit]
    found: dict[str, dict[str, object]] = {}
    for kind, change in (("scattered", scatter), ("in one stretch", stretch)):
        for fraction in FRACTIONS:
            edited = [change(each, fraction, rng) for each in originals]
            both = [fingerprint(each) for each in (*originals, *edited)]
            pairs = pair_ours(both)
            hits = [(idx, idx + len(originals)) in pairs for idx in range(len(originals))]
            similar = [each >= THRESHOLD for each in list_similarities(originals, edited)]
            hits_if_similar = sum(map(min, hits, similar))
            found[f"{fraction:.0%} of words, {kind}"] = {
                "notebooks": len(originals),
                "recall": sum(hits) / len(originals),
                "similar": sum(similar),
                "recall_of_similar": hits_if_similar / sum(similar) if any(similar) else None,
            }
    return found


def scatter(notebook: Notebook, fraction: float, rng: random.Random) -> Notebook:
    """Replace words here and there."""
    return replace(notebook, lambda _: rng.random() < fraction, rng)


def stretch(notebook: Notebook, fraction: float, rng: random.Random) -> Notebook:
    """Replace words that follow one another, as an edited section does."""
    num_words = count_words(notebook)
    length = round(num_words * fraction)
    first = rng.randrange(num_words - length + 1)
    return replace(notebook, lambda place: first <= place < first + length, rng)


def replace(notebook: Notebook, goes: Callable[[int], bool], rng: random.Random) -> Notebook:
    place = -1

    def choose(match: re.Match[str]) -> str:
        nonlocal place
        place += 1
        return f"w{rng.randrange(10**9)}" if goes(place) else match.group()

    return tuple(
        CellText(kind=each.kind, source=WORD.sub(choose, each.source)) for each in notebook
    )


def list_similarities(originals: Sequence[Notebook], edited: Sequence[Notebook]) -> list[float]:
    """Return the true similarities."""
    similarities: list[float] = []
    for original, other in zip(originals, edited, strict=True):
        ones, others = set(plain_ngrams(original)), set(plain_ngrams(other))
        similarities.append(len(ones & others) / len(ones | others))
    return similarities


if __name__ == "__main__":
    raise SystemExit(main())
