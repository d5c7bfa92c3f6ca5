"""compare: a paired bootstrap, an exact test, and no comparison of what cannot be compared."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from jupyt5.errors import ProblemSetError, UsageError
from jupyt5_dsp.cli import main
from jupyt5_dsp.compare import compare_runs, describe_comparison


def write_run(
    path: Path,
    correct: list[int],
    *,
    num_samples: int = 4,
    groups: list[str] | None = None,
    **changes: Any,
) -> Path:
    """Write results of problems P0, P1 …, each a cluster of its own."""
    problems = [
        {
            "task_id": f"P{idx}",
            "num_samples": num_samples,
            "num_correct": count,
            "usable": "yes",
            "grading_key": groups[idx] if groups else str(idx),
            "cluster": idx if not groups else sorted(set(groups)).index(groups[idx]),
        }
        for idx, count in enumerate(correct)
    ]
    results = {
        "suite": "dsp",
        "suite_version": "dsp-v1",
        "provider": f"fake:{path.name}",
        "settings": {"problem_set": "digest", "timeout_s": 10},
        "environment": {"python": "3.11"},
        "strict": False,
        "partial": False,
        "pass_at_k": {"valid": {"1": 0, "4": 0}},
        "problems": problems,
    }
    path.mkdir()
    (path / "results.json").write_text(json.dumps(results | changes))
    return path


def test_difference_is_paired(tmp_path: Path) -> None:
    # Problems differ much, the runs by one or two passes in each: only pairing sees that.
    correct = [0, 2] * 20
    a = write_run(tmp_path / "a", correct)
    b = write_run(tmp_path / "b", [count + 1 + idx // 20 for idx, count in enumerate(correct)])
    found: Any = compare_runs(a, b)
    row = found["pass_at_k"]["valid"]["1"]
    assert (row["a"], row["b"]) == (pytest.approx(0.25), pytest.approx(0.625))
    assert row["difference"] == pytest.approx(0.375)
    assert row["ci95"] == [pytest.approx(0.335, abs=0.01), pytest.approx(0.415, abs=0.01)]
    assert found["changed_sides"]["only_b"] == [f"P{idx}" for idx in range(0, 40, 2)]
    assert found["changed_sides"]["only_a"] == []


def test_a_run_does_not_differ_from_itself(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [0, 1, 2, 3, 4])
    found: Any = compare_runs(a, a)
    row = found["pass_at_k"]["valid"]["4"]
    assert row["difference"] == 0
    # In five problems, others may hide of which one run solves half (Clopper-Pearson: 0 of 5).
    assert row["ci95"] == [pytest.approx(-0.5218, abs=1e-4), pytest.approx(0.5218, abs=1e-4)]
    assert found["mcnemar"]["p_value"] == 1
    assert found["differing"] == []


def test_mcnemar_is_exact_and_takes_one_problem_a_test(tmp_path: Path) -> None:
    # Nine tests, two problems each; B solves eight that A does not, A one that B does not.
    groups = [f"g{idx // 2}" for idx in range(18)]
    a = write_run(tmp_path / "a", [0, 0] * 8 + [1, 1], groups=groups)
    b = write_run(tmp_path / "b", [1, 0] * 8 + [0, 1], groups=groups)
    found: Any = compare_runs(a, b)
    test = found["mcnemar"]
    assert test["num_groups"] == 9
    assert (test["only_a"], test["only_b"], test["both"], test["neither"]) == (1, 8, 0, 0)
    assert test["p_value"] == pytest.approx(2 * (1 + 9) / 2**9)
    assert found["pass_at_k"]["distinct"]["1"]["difference"] == pytest.approx(7 / 8 / 9)


@pytest.mark.parametrize(("gains", "total"), [(3, 4), (4, 4), (5, 5), (6, 6), (6, 7)])
def test_interval_of_few_gains_agrees_with_the_exact_test(
    tmp_path: Path, gains: int, total: int
) -> None:
    a = write_run(tmp_path / "a", [0] * total)
    b = write_run(tmp_path / "b", [4] * gains + [0] * (total - gains))
    found: Any = compare_runs(a, b)
    low, high = found["pass_at_k"]["valid"]["1"]["ci95"]
    assert (low > 0) == (found["mcnemar"]["p_value"] < 0.05)
    assert gains / total < high or gains == total
    caution = f"few independent clusters of problems ({total}): rough intervals"
    assert caution in describe_comparison(found)


def test_unequal_numbers_of_hypotheses_are_cut_to_the_smaller(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [1, 1], num_samples=4)
    b = write_run(tmp_path / "b", [1, 1], num_samples=2)
    for run, passing in ((a, 3), (b, 0)):
        lines = [
            {"task_id": f"P{idx}", "sample_idx": passing if idx else 0, "verdict": "passed"}
            for idx in range(2)
        ]
        (run / "verdicts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found: Any = compare_runs(a, b)
    # A solved P1 only with its fourth hypothesis.
    assert found["changed_sides"] == {"only_a": [], "only_b": ["P1"]}
    assert list(found["pass_at_k"]["valid"]) == ["1"]
    assert "fewer than 4 hypotheses" in found["blocked_k"]["4"]
    assert found["mcnemar"]["num_cut"] == 2
    assert "different numbers of hypotheses in 2 of these pairs" in "\n".join(
        describe_comparison(found)
    )


def test_problems_without_hypotheses_are_told_and_not_tested(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [4, 0, 0])
    b = write_run(tmp_path / "b", [4, 4, 0])
    results = json.loads((a / "results.json").read_text())
    results["problems"][1]["num_samples"] = 0
    (a / "results.json").write_text(json.dumps(results))
    (a / "verdicts.jsonl").write_text("")
    (b / "verdicts.jsonl").write_text("")
    found: Any = compare_runs(a, b)
    assert found["pass_at_k"]["valid"]["1"]["a"] == pytest.approx(1 / 3)
    test = found["mcnemar"]
    assert (test["num_groups"], test["both"], test["only_b"], test["neither"]) == (2, 1, 0, 1)
    assert (test["num_left_out"], test["num_cut"]) == (1, 0)
    lines = "\n".join(describe_comparison(found))
    assert "A has no hypotheses for 1 of these problems: they count 0" in lines
    assert "left out there, since A or B has no hypotheses: 1" in lines


def test_problems_valid_in_one_run_only_are_left_out(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [4, 4])
    b = write_run(tmp_path / "b", [0, 4])
    results = json.loads((b / "results.json").read_text())
    results["problems"][0]["usable"] = "no"
    (b / "results.json").write_text(json.dumps(results))
    found: Any = compare_runs(a, b)
    assert (found["num_valid"], found["num_problems"]) == (1, 2)
    assert found["pass_at_k"]["valid"]["1"]["difference"] == 0
    assert "dsp-v1, 1 problem valid in both (1 more only in A)" in describe_comparison(found)
    assert "dsp-v1, 1 problem valid in both (1 more only in B)" in describe_comparison(
        compare_runs(b, a)
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"suite_version": "dsp-v2"}, 'suite_version is "dsp-v1" in the first, "dsp-v2"'),
        ({"suite": "mbpp"}, "suite is"),
        ({"strict": True}, "strict is false in the first, true in the second"),
        ({"settings": {"problem_set": "other"}}, "their notebooks differ"),
        ({"problems": []}, "only one has P0, P1"),
        ({"partial": True}, "was broken off"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    a = write_run(tmp_path / "a", [1, 2])
    b = write_run(tmp_path / "b", [1, 2], **changes)
    with pytest.raises(UsageError, match=text):
        compare_runs(a, b)


def test_other_settings_are_told(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [1, 2])
    settings = {"problem_set": "digest", "timeout_s": 60}
    b = write_run(tmp_path / "b", [1, 2], settings=settings)
    found = compare_runs(a, b)
    assert found["differing"] == ["settings.timeout_s: 10 / 60"]
    assert "differs: settings.timeout_s: 10 / 60" in describe_comparison(found)


def test_long_settings_are_cut_and_equal_parts_left_out(tmp_path: Path) -> None:
    packages = {f"package-{idx}": "1.0" for idx in range(20)}
    a = write_run(tmp_path / "a", [1, 2], environment={"packages": packages | {"numpy": "2.4"}})
    b = write_run(tmp_path / "b", [1, 2], environment={"packages": packages | {"lxml": "6.1"}})
    c = write_run(tmp_path / "c", [1, 2], environment={"packages": {}})
    line = 'environment.packages: {"numpy": "2.4"} / {"lxml": "6.1"}'
    assert compare_runs(a, b)["differing"] == [line]
    (line,) = cast("list[str]", compare_runs(a, c)["differing"])
    assert line.startswith('environment.packages: {"package-0": "1.0", ')
    assert line.endswith("… / {}")


def test_unfinished_and_damaged_runs(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [1, 2])
    with pytest.raises(ProblemSetError, match=r"has no results\.json"):
        compare_runs(a, tmp_path)
    b = write_run(tmp_path / "b", [1, 2], pass_at_k={"valid": {"one": 1}})
    with pytest.raises(ProblemSetError, match="damaged or of an older version"):
        compare_runs(a, b)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = write_run(tmp_path / "a", [0, 1, 2, 3])
    b = write_run(tmp_path / "b", [1, 1, 2, 0])
    assert main(["compare", str(a), str(b)]) == 0
    text = capsys.readouterr().out
    assert "solved by A only: 1 (P3)" in text
    assert "solved by B only: 1 (P0)" in text
    assert "McNemar, exact: p = 1" in text
    assert main(["compare", str(a), str(b), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_valid"] == 4
