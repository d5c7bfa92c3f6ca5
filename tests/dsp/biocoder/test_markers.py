"""Generated inputs: what a marker becomes, and what is drawn for it."""

import os
import random
import string

import pytest

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.biocoder.markers import find_markers, make_input, replace_markers


def draw(marker: str, number: int = 200, seed: int = 0) -> list[str]:
    markers = find_markers(marker, "t")
    return [
        make_input(markers, seed=seed, task_id="t", input_idx=idx)["PASSATK0"]
        for idx in range(number)
    ]


def run(program: str, **variables: str) -> dict[str, object]:
    text = replace_markers(program, find_markers(program, "t"))
    names: dict[str, object] = {}
    saved = dict(os.environ)
    os.environ.update(variables)
    try:
        exec(text, names)  # noqa: S102  our own program
    finally:
        os.environ.clear()
        os.environ.update(saved)
    return names


def test_numbers_count_from_the_last_marker_to_the_first() -> None:
    program = "import sys, os; a = <|int|>; b = <|string|>; c = <|float|>"
    text = replace_markers(program, find_markers(program, "t"))
    assert text == (
        'import sys, os; a = int(os.environ["PASSATK2"]); b = os.environ["PASSATK1"]; '
        'c = float(os.environ["PASSATK0"])'
    )
    names = run(program, PASSATK0="0.5", PASSATK1="xy", PASSATK2="-7")
    assert (names["a"], names["b"], names["c"]) == (-7, "xy", 0.5)


@pytest.mark.parametrize("head", ["", "from os import path\n", "import posix  # os\n"])
def test_a_program_need_not_import_os(head: str) -> None:
    names = run(f"{head}a = <|int|>; b = <|string|>", PASSATK0="x", PASSATK1="-7")
    assert (names["a"], names["b"]) == (-7, "x")


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("True", True), ("1", True), ("false", False), ("False", False), ("0", False)],
)
def test_a_boolean_can_be_false(text: str, value: bool) -> None:
    assert run("b = <|bool|>", PASSATK0=text)["b"] is value


def test_both_truth_values_are_drawn() -> None:
    assert set(draw("<|bool|>")) == {"true", "false"}
    assert set(draw("<|bool;type=upper|>")) == {"True", "False"}
    assert set(draw("<|bool;type=python|>")) == {"True", "False"}
    assert set(draw("<|bool;type=int|>")) == {"0", "1"}


def test_ranges_of_numbers_include_their_ends() -> None:
    assert {int(value) for value in draw("<|int;range=2,5|>")} == {2, 3, 4, 5}
    floats = [float(value) for value in draw("<|float;range=-1,1|>")]
    assert min(floats) < -0.9
    assert max(floats) > 0.9
    assert all(-1 <= value <= 1 for value in floats)
    assert all(abs(int(value)) <= 100_000 for value in draw("<|int|>"))
    assert max(abs(int(value)) for value in draw("<|int|>")) > 90_000


@pytest.mark.parametrize(
    ("kind", "alphabet"),
    [
        ("ascii", string.ascii_letters),
        ("alpha", string.ascii_lowercase),
        ("alphanumeric", string.ascii_lowercase + string.digits),
        ("alphanumeric_special", string.ascii_lowercase + string.digits + string.punctuation),
        ("alphanumeric_allcases", string.ascii_letters + string.digits),
    ],
)
def test_alphabets_of_strings(kind: str, alphabet: str) -> None:
    values = draw(f"<|string;length=3,6;type={kind};quotes=double|>", number=600)
    assert {len(value) for value in values} == {3, 4, 5, 6}
    assert set("".join(values)) == set(alphabet)


def test_strings_without_arguments_and_with_a_choice() -> None:
    assert {len(value) for value in draw("<|string|>")} == {10}
    assert {len(value) for value in draw("<|string;length=4|>")} == {4}
    assert set(draw("<|string;custom=ACGT, TT,N|>")) == {"ACGT", "TT", "N"}


@pytest.mark.parametrize(
    ("marker", "word"),
    [
        ("<|list|>", "list"),
        ("<|int;ranges=1,2|>", "ranges"),
        ("<|int;range=1|>", "two numbers"),
        ("<|int;range=5,1|>", "more than"),
        ("<|int;range=a,b|>", "invalid literal"),
        ("<|float;range=1,x|>", "could not convert"),
        ("<|bool;type=yes|>", "yes"),
        ("<|string;type=greek|>", "greek"),
        ("<|string;length=-3|>", "negative"),
        ("<|string;quotes=both|>", "both"),
    ],
)
def test_unknown_markers_are_errors_that_name_them(marker: str, word: str) -> None:
    with pytest.raises(ProblemSetError) as caught:
        find_markers(f"x = {marker}", "problem 7")
    assert marker in str(caught.value)
    assert word in str(caught.value)
    assert "problem 7" in str(caught.value)


def test_a_marker_may_span_lines_and_stand_in_an_f_string() -> None:
    assert draw("<|int;\n range=3,3|>", number=1) == ["3"]
    for quote in ("'", '"'):
        program = f"s = f{quote}{{<|string|>}}-{{<|string|>}}{quote}"
        assert run(program, PASSATK0="b", PASSATK1="a")["s"] == "a-b"


def test_inputs_depend_on_seed_problem_and_number_only() -> None:
    markers = find_markers("<|int|> <|string|>", "t")

    def make(seed: int, task_id: str, idx: int) -> dict[str, str]:
        return make_input(markers, seed=seed, task_id=task_id, input_idx=idx)

    first = make(0, "t", 3)
    random.seed(1)
    assert make(0, "t", 3) == first
    others = [make(1, "t", 3), make(0, "u", 3), make(0, "t", 4)]
    assert all(other != first for other in others)
    assert set(first) == {"PASSATK0", "PASSATK1"}
