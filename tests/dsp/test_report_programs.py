"""The page of a run over programs: no notebooks, no cells; their tests beside the samples."""

from pathlib import Path
from typing import Any

import pytest

from jupyt5_dsp.biocoder.checker import OutputChecker, OutputTest
from jupyt5_dsp.biocoder.insertion import find_slot
from jupyt5_dsp.biocoder.records import BioProblem
from jupyt5_dsp.problems import Form, Shown
from jupyt5_dsp.programs import Program, make_cell, make_program_set
from jupyt5_dsp.prompts import PromptSize, note_prompts
from jupyt5_dsp.report import write_references, write_report
from jupyt5_dsp.report.charts import RatePoint
from jupyt5_dsp.report.view import make_view
from jupyt5_dsp.report.words import Words, choose_words

from .test_report import make_results, read_block, write_run

PROGRAMS = make_results()["problems"]
PROGRAMS = [problem | {"notebook": problem["task_id"]} for problem in PROGRAMS]


def make_program(task_id: str) -> Program:
    return Program(
        task_id=task_id,
        form=Form(reference="    return 1\n", prefix="def one():\n", suffix="\n# end\n"),
        grading="assert one() == 1",
        shown=Shown(cells=(make_cell("code", ""),), target_idx=0, function="one"),
    )


def test_words() -> None:
    words = choose_words(PROGRAMS)
    assert words.programs
    raised = "Solution cell 0 raised SyntaxError: invalid syntax."
    assert words.say(raised) == "The program raised SyntaxError: invalid syntax."
    assert words.say("Grading cell 1 raised KeyError.") == "The test raised KeyError."
    reason = "the test passes without the solution cell, of which it uses no name"
    assert "without the solution, of" in words.say(reason)
    for problems in ([], make_results()["problems"], [*PROGRAMS, *make_results()["problems"]]):
        assert choose_words(problems) == Words()
    assert Words().say(raised) == raised


def test_programs_have_no_notebooks(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"problems": PROGRAMS, "passed_with_flag": {}}
    run = write_run(tmp_path / "run", **changes)
    write_references(run, make_program_set([make_program("T/0"), make_program("T/1")]))
    size = PromptSize(task_id="T/0", num_chars=30, num_tokens=8, num_left_out=2, is_estimate=False)
    note_prompts(run, [size])
    page = write_report(run).read_text(encoding="utf-8")
    head = page[: page.index("<script")]
    for text in ("notebook", "grading cell", "solution cell"):
        assert text not in head.lower(), text
    assert "an assertion of the test failed" in page
    first, second = read_block(page, "index")
    assert first["prompt"] == {"num_tokens": 8, "num_left_out": 2, "is_estimate": False}
    assert second["prompt"] is None
    assert (first["notebook"], first["function"], second["function"]) == ("", "one", "one")
    (part,) = read_block(page, "b0")
    assert (part["prefix"], part["suffix"]) == ("def one():\n", "\n# end\n")
    assert (part["grading"], part["before"], part["after"]) == (["assert one() == 1"], "", "")


def test_test_programs_stand_beside_their_samples(tmp_path: Path) -> None:
    bio = BioProblem(
        task_id="T/0", language="python", function="one", signature="one()", golden="def one(): 1",
        summary="", context="import os\n<<insert solution here>>\nprint(one())\n",
    )  # fmt: skip
    test = OutputTest(problem=bio, slot=find_slot(bio.context, "T/0"), inputs=({},))
    checker = OutputChecker({"T/0": test})
    programs = [make_program("T/0"), make_program("T/1")]
    assert checker.show_test("T/1") == ("", "")
    run = write_run(tmp_path / "run", problems=PROGRAMS)
    write_references(run, make_program_set(programs, checker=checker))
    (part,) = read_block(write_report(run).read_text(encoding="utf-8"), "b0")
    assert (part["before"], part["after"]) == ("import os\n", "\nprint(one())\n")
    assert part["grading"] == []  # it only names the test


def test_chips_tell_runs_apart(tmp_path: Path) -> None:
    sampling = {"temperature": 0.2, "top_p": 0.95, "top_k": 0, "max_tokens": 256}
    options = {"presentation": "uncommented", "corrections": "no"}
    settings = {"num_samples": 8, "sampling": sampling, "options": options}
    run = write_run(tmp_path / "run", suite="biocoder", settings=settings)
    page = write_report(run).read_text(encoding="utf-8")
    chips = page[page.index('class="chips"') : page.index("<main>")]
    for chip in ("n = 8", "T = 0.2", "presentation=uncommented"):
        assert f"<li>{chip}</li>" in chips
    assert "corrections" not in chips  # the suite's default


@pytest.mark.parametrize(("num_problems", "told"), [(4, True), (10, False)])
def test_few_problems_have_no_correlation(num_problems: int, told: bool) -> None:
    points = [RatePoint(f"P{idx}", idx / 10, idx / 20) for idx in range(num_problems)]
    from jupyt5_dsp.report.blocks import Heads, Packed, Tally

    packed = Packed([], {}, Tally(), Heads(1, 1, 1, 1))
    values = make_view(make_results(), packed, points, num_given=3).values
    note = str(values["codebleu_note"])
    assert ("too few for a rank correlation, which takes 10" in note) == told
    assert ("rank correlation with the pass rate 1.00" in note) == (not told)


def test_a_rate_without_an_interval_says_so(tmp_path: Path) -> None:
    ends = {name: {"1": None} for name in ("valid", "distinct", "all", "attempted")}
    page = write_report(write_run(tmp_path / "run", ci95=ends)).read_text(encoding="utf-8")
    assert page.count("no interval: made by an older version") == 4


def test_one_refusal_for_each_k(tmp_path: Path) -> None:
    blocked = {"reason": "too few", "num_blocking": 9, "task_ids": [f"T/{n}" for n in range(9)]}
    scopes = {name: {"10": blocked, "100": blocked} for name in ("valid", "distinct", "all")}
    page = write_report(write_run(tmp_path / "run", blocked_k=scopes)).read_text(encoding="utf-8")
    assert page.count("too few") == 2
    assert "T/5 and 3 more" in page
