"""Every run notes how long its prompts are: in the model's tokens, or about."""

from pathlib import Path

from jupyt5.providers import Sampling, load_provider
from jupyt5_dsp.problems import load_problem_set
from jupyt5_dsp.prompts import measure_prompt, note_prompts, read_prompts
from jupyt5_dsp.samples import Generation
from jupyt5_dsp.suites import find_suite, load_suite

from .suite_fixtures import write_humaneval

GENERATION = Generation(
    num_samples=1,
    num_context_cells=1,
    num_following_cells=0,
    sampling=Sampling(),
    seed=0,
    prompt_tokens=8192,
)


def test_no_model_means_an_estimate_of_what_is_shown(add_set: Path, tmp_path: Path) -> None:
    problem_set = load_problem_set(add_set)
    size = measure_prompt(None, problem_set, problem_set.problems[1], GENERATION)
    # One cell above and the empty solution cell; not the reference, not the test.
    assert size.num_chars == len("Write `double`, using `add`.") + len("\n")
    assert size.is_estimate
    assert size.num_tokens == round(size.num_chars / 3.5)

    suite = find_suite("humaneval")
    path = write_humaneval(tmp_path)
    programs = load_suite(suite, path)
    size = measure_prompt(None, programs, programs.problems[0], GENERATION)
    assert size.num_chars == len(programs.prefix_of(programs.problems[0]).rstrip("\n"))


def test_a_model_counts_its_own_tokens(add_set: Path) -> None:
    problem_set = load_problem_set(add_set)
    size = measure_prompt(
        load_provider("jupyt5:nano"), problem_set, problem_set.problems[1], GENERATION
    )
    assert not size.is_estimate
    assert 5 < size.num_tokens < 60


def test_a_later_note_replaces_an_earlier_one(add_set: Path, tmp_path: Path) -> None:
    problem_set = load_problem_set(add_set)
    sizes = [measure_prompt(None, problem_set, one, GENERATION) for one in problem_set.problems]
    assert read_prompts(tmp_path) == {}
    note_prompts(tmp_path, sizes)
    note_prompts(tmp_path, sizes[:1])
    assert list(read_prompts(tmp_path).values()) == sizes
