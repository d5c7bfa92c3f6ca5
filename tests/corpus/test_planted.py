"""Benchmarks planted among innocent notebooks of the shared corpus: all found, nothing else."""

import gzip
import json
import random
import re
import tarfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from jupyt5.notebook import Cell, read_notebook
from jupyt5_corpus.benchmark_index import NGRAM_SIZE, BenchmarkIndex, load_bundled
from jupyt5_corpus.benchmark_sources import BENCHMARKS, read_dsp_notebooks, read_parts
from jupyt5_corpus.cli import main
from jupyt5_corpus.compression import open_packed
from jupyt5_corpus.filters.overlap import MIN_OF_PART, find_overlap, hold_out_overlap
from jupyt5_corpus.fingerprint import fingerprint
from jupyt5_corpus.ngrams import hash_ngrams, split_words
from jupyt5_corpus.row import CellText, Removal

INNOCENT = (Path(__file__).parent / "files" / "innocent_notebooks.txt").read_text().splitlines()
INNOCENT = [line for line in INNOCENT if not line.startswith("#")]
TUTORIAL = "Functions are values. In this lesson we write some, and talk about how they are named."
WORD = re.compile(r"\w+")


@pytest.fixture
def benchmarks(shared_corpus) -> dict[str, Path]:
    folders = {name: shared_corpus.parent / name.lower() for name in BENCHMARKS}
    for folder in folders.values():
        if not folder.is_dir():
            pytest.skip(f"the shared benchmark ../shared/data/{folder.name} is not here")
    return folders


@pytest.fixture
def prompts(benchmarks) -> dict[str, str]:
    with gzip.open(benchmarks["HumanEval"] / "HumanEval.jsonl.gz") as stream:
        return {entry["task_id"]: entry["prompt"] for entry in map(json.loads, stream)}


def docstring_of(prompt: str) -> str:
    return prompt.rsplit('"""' if '"""' in prompt else "'''", 2)[1]


def edit(text: str, fraction: float, rng: random.Random) -> str:
    """Replace that fraction of the words by others."""

    def replace(match: re.Match[str]) -> str:
        return f"w{rng.randrange(10**6)}" if rng.random() < fraction else match.group()

    return WORD.sub(replace, text)


def edited(cells: tuple[CellText, ...], fraction: float, seed: int) -> tuple[CellText, ...]:
    rng = random.Random(seed)
    return tuple(
        CellText(kind=cell.kind, source=edit(cell.source, fraction, rng)) for cell in cells
    )


def caught(cells: tuple[CellText, ...], make, index: BenchmarkIndex) -> str | None:
    row = make.row(repo="someone/else", path="Untitled7.ipynb", cells=cells)
    answer = hold_out_overlap(row, fingerprint(cells), index)
    return answer.reason if isinstance(answer, Removal) else None


@pytest.mark.parametrize(("fraction", "expected"), [(0.0, 1.0), (0.01, 1.0), (0.05, 0.94)])
def test_dsp_notebooks_under_other_names_with_edits(benchmarks, make, fraction, expected):
    index = load_bundled()
    notebooks = list(read_dsp_notebooks(benchmarks["DSP"]))
    assert len(notebooks) == 211
    found = [
        caught(edited(notebook.cells, fraction, seed), make, index)
        for seed, notebook in enumerate(notebooks)
    ]
    assert sum(reason is not None for reason in found) >= expected * len(notebooks)


def test_humaneval_docstrings_in_a_tutorial(prompts, make):
    """All but those with fewer than six n-grams, which also somebody else may have written."""
    index = load_bundled()
    missed: list[int] = []
    named_wrong: list[str] = []
    for task_id, prompt in prompts.items():
        docstring = docstring_of(prompt)
        text = f"## Exercise\n{TUTORIAL}\n\n{docstring}\n\n{TUTORIAL}"
        cells = make.cells("x = 1", ("markdown", text), "print(x)")
        found = find_overlap(split_words([cell.source for cell in cells]), index)
        if found is None:
            ngrams = hash_ngrams(split_words([docstring]), NGRAM_SIZE, short_cells=False)
            missed.append(np.unique(index.find(ngrams.hashes)[1]).size)
        elif index.problems[found.problem_idx] != task_id:
            named_wrong.append(task_id)
    assert max(missed) < MIN_OF_PART
    assert (len(missed), len(named_wrong)) == (9, 1)


@pytest.mark.parametrize("benchmark", ["MBPP", "BioCoder", "HumanEval", "DSP"])
def test_whole_problems_are_found(benchmarks, benchmark):
    index = load_bundled()
    texts: dict[str, list[str]] = {}
    for part in read_parts(benchmark, benchmarks[benchmark]):
        texts.setdefault(part.problem, []).append(part.text)
    found = sum(find_overlap(split_words(each), index) is not None for each in texts.values())
    assert found >= 0.97 * len(texts)


def test_the_bundled_index_is_of_all_problems_and_names_only(benchmarks):
    index = load_bundled()
    counts = Counter(name.partition("/")[0] for name in index.problems)
    assert counts == {"DSP": 672, "HumanEval": 164, "MBPP": 974, "BioCoder": 539}
    assert all(re.fullmatch(r"[\w/.-]+", name) for name in index.problems)
    assert all(name.startswith("DSP: ") and name.endswith(".ipynb") for name in index.notebooks)
    assert index.about["num_reference_families"] == 148
    assert index.about["ngram_size"] == NGRAM_SIZE


def test_fifty_innocent_notebooks_on_similar_topics_stay(innocent, make):
    index = load_bundled()
    assert len(innocent) == len(INNOCENT) == 50
    removed = [
        path
        for path, data in innocent.items()
        if caught(make.cells(*_pairs(read_notebook(data).cells)), make, index) is not None
    ]
    assert removed == []


@pytest.mark.slow
def test_a_build_removes_what_was_planted_and_nothing_else(
    benchmarks, prompts, innocent, make, build, corpus, tmp_path
):
    planted = _plant(benchmarks["DSP"], prompts, make)
    archive = tmp_path / "notebooks.tar"
    archive.write_bytes(make.tar(planted | innocent))
    build(archive, recipe="default")
    removals = {
        f"{each['repo']}/{each['path']}": each["reason"]
        for each in corpus.removals(tmp_path / "corpus")
        if each["step"] in {"holdout", "overlap"}
    }
    assert set(removals) == set(planted)
    assert removals["student/homework-2017/my own thoughts.ipynb"] == "holdout_fork"
    report = (tmp_path / "corpus" / "decontamination.jsonl").read_bytes().splitlines()
    assert len(report) == len(planted)
    entries = [json.loads(line) for line in report]
    tutorial = next(each for each in entries if each["repo"] == "teacher/tutorial")
    assert tutorial["problem"] == "HumanEval/32"
    assert tutorial["matched_text"]


def _plant(dsp: Path, prompts: dict[str, str], make) -> dict[str, bytes]:
    notebooks = list(read_dsp_notebooks(dsp))
    owners = Counter(each.name.split("/")[0] for each in notebooks)
    owner = owners.most_common(1)[0][0]
    fork = [each for each in notebooks if each.name.startswith(f"{owner}/")]
    planted = {
        f"student/homework-2017/{idx}.ipynb": make.notebook(*_pairs(each.cells))
        for idx, each in enumerate(fork)
    }
    planted["student/homework-2017/my own thoughts.ipynb"] = make.notebook(
        ("markdown", f"What I thought about the homework. {TUTORIAL}"), "answer = 42"
    )
    other = next(each for each in notebooks if not each.name.startswith(f"{owner}/"))
    planted["someone/notes/analysis.ipynb"] = make.notebook(*_pairs(edited(other.cells, 0.05, 1)))
    planted["teacher/tutorial/lesson.ipynb"] = make.notebook(
        ("markdown", TUTORIAL), ("markdown", docstring_of(prompts["HumanEval/32"])), "x = 1"
    )
    return planted


def _pairs(cells: Sequence[CellText | Cell]) -> list[tuple[str, str]]:
    return [(cell.kind, cell.source) for cell in cells]


@pytest.fixture(scope="module")
def unpacked() -> dict[str, bytes]:
    return {}


@pytest.fixture
def innocent(shared_corpus, unpacked) -> dict[str, bytes]:
    """The innocent notebooks by path, read from the shared corpus once."""
    if not unpacked:
        for path in sorted(shared_corpus.glob("0*.tar.zst")):
            with open_packed(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    if member.name in INNOCENT:
                        extracted = archive.extractfile(member)
                        assert extracted is not None
                        unpacked[member.name] = extracted.read()
    return unpacked


@pytest.mark.slow
def test_the_bundled_index_is_what_the_command_makes(
    benchmarks, shared_corpus, build, tmp_path, capsys
):
    """Of the four benchmarks and the shared corpus, built with the recipe of the paper."""
    build(shared_corpus, recipe="paper")
    folders = [f"{name}={folder}" for name, folder in benchmarks.items()]
    reference = ["--reference", str(tmp_path / "corpus")]
    out = tmp_path / "made.npz"
    assert main(["make-overlap-index", *folders, *reference, "--out", str(out)]) == 0
    assert "2349 problems" in capsys.readouterr().out
    made, bundled = BenchmarkIndex.load(out.read_bytes()), load_bundled()
    assert made.about == bundled.about
    assert (made.problems, made.notebooks) == (bundled.problems, bundled.notebooks)
    for name in ("ngrams", "bounds", "parts", "part_problems", "part_sizes", "signatures"):
        np.testing.assert_array_equal(getattr(made, name), getattr(bundled, name))
