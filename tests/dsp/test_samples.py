"""Samples from files and from providers."""

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pytest

from jupyt5.errors import ProblemSetError, ProviderError
from jupyt5.providers import Sampling, load_provider
from jupyt5_dsp.problems import load_problem_set
from jupyt5_dsp.sample_files import read_samples, write_samples
from jupyt5_dsp.samples import (
    Generation,
    generate_samples,
    make_gold,
    make_request,
)

GENERATION = Generation(
    num_samples=2,
    num_context_cells=3,
    num_following_cells=1,
    sampling=Sampling(),
    seed=0,
    prompt_tokens=8192,
)


def write_lines(path: Path, records: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_plain_and_gzip_are_read_verbatim(add_set: Path, tmp_path: Path) -> None:
    problem_set = load_problem_set(add_set)
    text = "  x = 'é'\r\n\n# cell marker\n"
    plain = write_lines(
        tmp_path / "s.jsonl",
        [
            {"task_id": "T/1", "completion": text},
            {"task_id": "T/0", "completion": "a"},
            {"task_id": "T/1", "completion": "b"},
        ],
    )
    packed = tmp_path / "s.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        samples = read_samples(path, problem_set)
        found = [(s.task_id, s.sample_idx, s.completion) for s in samples]
        assert found == [("T/0", 0, "a"), ("T/1", 0, text), ("T/1", 1, "b")]
    assert len(read_samples(plain, problem_set, max_samples=1)) == 2


def test_bad_samples_files(add_set: Path, tmp_path: Path) -> None:
    problem_set = load_problem_set(add_set)
    with pytest.raises(ProblemSetError, match="cannot be read"):
        read_samples(tmp_path / "missing.jsonl", problem_set)
    for record, message in (
        ({"task_id": "T/0", "solution": ""}, "completion is missing, there are task_id, solution"),
        ({"completion": ""}, "field task_id is missing"),
        ({"task_id": 14, "completion": ""}, "task_id 14 is no text; here they look like 'T/0'"),
        ({"task_id": "T/0", "completion": ["x"]}, "completion is ['x'], and must be a text"),
        ({"task_id": "T/0", "raw": None}, "raw is None"),
        ({"task_id": "14", "completion": ""}, "of the 2 problems.*'14', the problems 'T/0'"),
    ):
        pattern = message.replace("[", r"\[").replace("]", r"\]")
        with pytest.raises(ProblemSetError, match=pattern):
            read_samples(write_lines(tmp_path / "a", [record]), problem_set)
    broken = tmp_path / "c.gz"
    broken.write_bytes(gzip.compress(b'{"task_id": "T/0", "completion": "x"}\n')[:-9])
    with pytest.raises(ProblemSetError, match="line"):
        read_samples(broken, problem_set)


def test_a_pipe_is_refused_before_it_is_read(add_set: Path) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b'{"task_id": "T/0", "completion": "x"}\n')
        with pytest.raises(ProblemSetError, match=r"is a pipe or a device.*Write them to a file"):
            read_samples(Path(f"/dev/fd/{reading}"), load_problem_set(add_set))
        assert os.read(reading, 99).startswith(b'{"task_id"')
    finally:
        os.close(reading)
        os.close(writing)


def test_what_a_model_wrote_is_taken_as_from_a_provider(add_set: Path, tmp_path: Path) -> None:
    problem_set = load_problem_set(add_set)
    answer = "Sure:\n```python\ndef double(a):\n    return 2 * a\n```\nThat is it."
    provider = load_provider(f"fake:text={quote(answer)}")
    asked = tmp_path / "asked.jsonl"
    list(generate_samples(provider, problem_set, GENERATION, asked))
    lines = [
        {"task_id": "T/1", "raw": answer, "mean_logprob": 0.0},
        {"task_id": "T/1", "completion": answer},
    ]
    taken, verbatim = read_samples(write_lines(tmp_path / "own.jsonl", lines), problem_set)
    assert taken.completion == "def double(a):\n    return 2 * a"
    assert taken in read_samples(asked, problem_set)
    assert verbatim.completion == answer


def test_request_holds_references_but_not_the_own_one(add_set: Path) -> None:
    problem_set = load_problem_set(add_set)
    first, second = problem_set.problems
    request = make_request(problem_set, first, GENERATION)
    assert request.prefix == "# your code here\n\n"
    assert "return a + b" not in "".join(cell.source for cell in request.cells)
    request = make_request(problem_set, second, GENERATION)
    assert "return a + b" in request.cells[1].source
    assert request.cells[4].source == ""
    assert not request.skip_blank
    assert (request.num_context_cells, request.num_following_cells) == (3, 1)


def test_generation_goes_on_where_it_stopped(add_set: Path, tmp_path: Path) -> None:
    problem_set = load_problem_set(add_set)
    path = tmp_path / "samples.jsonl"
    steps = iter(generate_samples(load_provider("fake:text=x"), problem_set, GENERATION, path))
    next(steps)
    with path.open("a") as stream:
        stream.write('{"task_id": "T/1", "sample')
    half = path.read_text()
    provider = load_provider("fake:text=y")
    assert len(list(generate_samples(provider, problem_set, GENERATION, path))) == 2
    assert path.read_text().startswith(half[: half.rindex("\n") + 1])
    samples = read_samples(path, problem_set)
    assert [(s.task_id, s.completion) for s in samples] == [
        ("T/0", "x"),
        ("T/0", "x"),
        ("T/1", "y"),
        ("T/1", "y"),
    ]


def test_failing_provider(add_set: Path, tmp_path: Path) -> None:
    provider = load_provider("fake:fail")
    with pytest.raises(ProviderError):
        list(generate_samples(provider, load_problem_set(add_set), GENERATION, tmp_path / "s"))


def test_gold_round_trip(add_set: Path, tmp_path: Path) -> None:
    problem_set = load_problem_set(add_set)
    gold = make_gold(problem_set)
    write_samples(tmp_path / "gold.jsonl", gold)
    assert read_samples(tmp_path / "gold.jsonl", problem_set) == gold
