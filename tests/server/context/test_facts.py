"""Facts about variables: chosen to fit, placed as the farthest context, never a value."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from jupyt5.notebook import Cell
from jupyt5.providers import FillRequest
from jupyt5.providers.texts import find_window
from jupyt5.server.context.cells import add_facts, choose_facts
from jupyt5.server.context.probe import describe

REQUEST = FillRequest(
    cells=(
        Cell(None, "code", "import numpy"),
        Cell(None, "code", "old = 1"),
        Cell(None, "markdown", "Sum up `prices`."),
        Cell(None, "code", ""),
        Cell(None, "code", "assert total == 3"),
    ),
    target_idx=3,
    num_context_cells=2,
)


def described(**names):
    shell = SimpleNamespace(user_ns={"_": 1, "In": [], **names}, user_ns_hidden={"In": []})
    return dict(describe(shell))


def test_names_types_and_shapes():
    def area(radius, *, scale=31415):
        return radius

    found = described(
        np=np, x=42, s="secret", rows=["secret"] * 3, area=area, a=np.ones((2, 3), "float32")
    )
    assert found == {
        "np": "module numpy",
        "x": "int",
        "s": "str",
        "rows": "list, 3 items",
        "area": "function(radius, scale)",
        "a": "ndarray, shape (2, 3), float32",
    }


def test_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"price": [1.5], "a name": ["secret"]})
    found = described(df=frame, one=frame["price"], by=frame.groupby("price"))
    assert found["df"].startswith("DataFrame, 1 rows, columns price (float64), a name (")
    assert found["one"] == "Series, 1 items, float64"
    assert found["by"] == "DataFrameGroupBy"  # asking it for more would compute
    wide = pd.DataFrame(np.zeros((1, 500)))
    assert described(wide=wide)["wide"].endswith("460 more")


def test_no_code_of_the_user_runs():
    class Trap:
        def __getattribute__(self, name):
            raise AssertionError(name)

        def __len__(self):
            raise AssertionError

        def __repr__(self):
            raise AssertionError

    class Sneaky(np.ndarray):
        @property
        def shape(self):  # pyright: ignore[reportIncompatibleMethodOverride]
            raise AssertionError

    found = described(trap=Trap(), sneaky=np.ones(2).view(Sneaky), cls=Trap)
    assert found == {"trap": "Trap", "sneaky": "Sneaky", "cls": "class"}


def test_names_nearby_come_first_then_the_latest():
    entries = [("prices", "list, 3 items"), ("a", "int"), ("b", "int"), ("total", "float")]
    text = choose_facts(entries, REQUEST, budget_bytes=1000)
    assert text.splitlines() == [
        "# Variables:",
        "# total: float",
        "# prices: list, 3 items",
        "# b: int",
        "# a: int",
    ]
    short = choose_facts(entries, REQUEST, budget_bytes=55)
    assert short.splitlines() == ["# Variables:", "# total: float", "# prices: list, 3 items"]
    assert choose_facts([], REQUEST, budget_bytes=1000) == ""


def test_they_are_the_farthest_context():
    told = add_facts(REQUEST, "# x: int")
    sources = [told.cells[idx].source for idx in find_window(told)]
    assert sources == ["# x: int", "old = 1", "Sum up `prices`.", "", "assert total == 3"]
    assert told.cells[told.target_idx].source == ""


async def test_what_is_sent(jp_fetch, body):
    response = await jp_fetch("jupyt5", "api", "context", method="POST", body=body())
    reply = json.loads(response.body)
    assert reply["provider"] == "fake:text=x+=+1"
    assert "assert add3" in reply["text"]
    assert reply["num_tokens"] > 10
    assert (reply["facts"], reply["facts_reason"]) == (None, "not asked for")


async def test_what_is_sent_without_a_kernel(jp_fetch, body):
    sent = body(kernel_facts=True, kernel_id="gone")
    reply = json.loads((await jp_fetch("jupyt5", "api", "context", method="POST", body=sent)).body)
    assert (reply["facts"], reply["facts_reason"]) == (None, "no kernel is running")


async def test_what_is_sent_by_a_provider_that_does_not_load(jp_fetch, body):
    sent = body(provider="jupyt5:/nowhere")
    response = await jp_fetch(
        "jupyt5", "api", "context", method="POST", body=sent, raise_error=False
    )
    assert response.code == 502
    assert json.loads(response.body)["code"] == "provider_failed"
