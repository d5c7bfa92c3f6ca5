"""The table in docs/casebook.md: no point without a test, no test that is not there."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "unit": ("tests/jupyt5",),
    "server": ("tests/server", "tests/openai"),
    "front": ("labextension/test",),
    "ui": ("tests/browser",),
}
# How many points each case has, and the levels that it names.
CASES = {
    1: (7, {"unit"}),
    2: (5, {"unit", "ui"}),
    3: (5, {"unit"}),
    4: (5, {"front"}),
    5: (5, {"server", "front"}),
    6: (8, {"front", "server"}),
    7: (4, {"front", "server"}),
    8: (6, {"server", "ui"}),
    9: (5, {"server"}),
    10: (6, {"unit", "front"}),
    11: (5, {"front", "server"}),
    12: (5, {"ui"}),
}
ROW = re.compile(r"^\| A(\d+)\.(\d+) \|[^|]*\| (\w+) \| `([^`]+)` \|$", re.MULTILINE)


class Row(NamedTuple):
    case: int
    point: int
    level: str
    test: str


def read_table() -> list[Row]:
    text = (ROOT / "docs" / "casebook.md").read_text()
    rows = [Row(int(case), int(point), *rest) for case, point, *rest in ROW.findall(text)]
    assert len(rows) == sum(line.startswith("| A") for line in text.splitlines())
    return rows


def read_names(path: Path) -> set[str]:
    """The tests of a Python file, those in classes as Class::test."""
    tree = ast.parse(path.read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = {node.name for node in tree.body if isinstance(node, functions)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}::{each.name}" for each in node.body if isinstance(each, functions)
            }
    return names


def exists(row: Row) -> bool:
    file, _, name = row.test.partition("::")
    found = [path for folder in FOLDERS[row.level] if (path := ROOT / folder / file).is_file()]
    if not found:
        return False
    if file.endswith(".ts"):
        return f"'{name}'" in found[0].read_text()
    name, _, example = name.removesuffix("]").partition("[")
    is_known = name in read_names(found[0])
    return is_known and (not example or f'"{example}"' in found[0].read_text())


def test_every_point_has_a_test_at_a_level_of_its_case():
    rows = read_table()
    for case, (num_points, levels) in CASES.items():
        found = {
            point: {row.level for row in rows if (row.case, row.point) == (case, point)}
            for point in range(1, num_points + 1)
        }
        assert [f"A{case}.{point}" for point in found if not found[point] & (levels | {"ui"})] == []
        assert levels <= set().union(*found.values()), case
    known = {(case, point) for case in CASES for point in range(1, CASES[case][0] + 1)}
    assert {(row.case, row.point) for row in rows} == known


@pytest.mark.parametrize(
    "row", read_table(), ids=lambda row: f"A{row.case}.{row.point} {row.level}"
)
def test_every_test_is_there(row: Row):
    assert exists(row), f"docs/casebook.md names {row.test}, which is not there"


def test_what_is_missing_is_noticed():
    for test in ("test_none.py::test_x", "test_hypotheses.py::test_x"):
        assert not exists(Row(1, 1, "unit", test))
    assert not exists(Row(1, 1, "unit", "test_hypotheses.py::test_fences_and_prose_go[no row]"))
    assert not exists(Row(4, 1, "front", "offsets.spec.ts::counts nothing"))
