"""The fill endpoint: what a well-formed request gets, and what it costs."""

import json
import subprocess
import sys

import pytest

from jupyt5.providers import FillRequest


async def test_lines_of_a_reply(fill):
    lines = await fill()
    assert {line["request_id"] for line in lines} == {"r1"}
    assert [line["type"] for line in lines] == [
        "status",  # loading
        "status",  # generating
        "delta",
        "delta",
        "delta",
        "candidate",
        "done",
    ]
    assert [line["state"] for line in lines[:2]] == ["loading", "generating"]
    assert [line["text"] for line in lines[2:6]] == ["x", "x =", "x = 1", "x = 1"]
    assert lines[5]["mean_logprob"] == 0.0


async def test_second_request_does_not_load_again(fill):
    await fill()
    lines = await fill(request_id="r2")
    assert [line["state"] for line in lines if line["type"] == "status"] == ["generating"]


async def test_several_candidates(fill):
    lines = await fill(n=3)
    candidates = [line for line in lines if line["type"] == "candidate"]
    assert [line["hypothesis_idx"] for line in candidates] == [0, 1, 2]


async def test_another_seed_brings_other_candidates(fill):
    uri = "fake:text=a&text=b&text=c"
    replies = [await fill(provider=uri, n=2, seed=seed) for seed in (None, 1)]
    texts = [[row["text"] for row in rows if row["type"] == "candidate"] for rows in replies]
    assert texts == [["a", "b"], ["b", "c"]]


async def test_request_names_its_provider(fill):
    lines = await fill(provider="fake:text=y")
    assert lines[-2]["text"] == "y"


async def test_cells_reach_the_provider_in_order(fill, monkeypatch):
    seen: list[FillRequest] = []
    from jupyt5.providers.fake import FakeProvider

    original = FakeProvider.generate

    def spy(self, request, *args):
        seen.append(request)
        return original(self, request, *args)

    monkeypatch.setattr(FakeProvider, "generate", spy)
    await fill(num_context_cells=2, num_following_cells=0, prefix="a\ud83d", suffix="b")
    (request,) = seen
    assert [(cell.id, cell.kind) for cell in request.cells] == [
        ("a", "code"),
        ("b", "markdown"),
        ("c", "code"),
        ("d", "code"),
    ]
    assert request.cells[3].source == "assert add3(1, 2, 3) == 6"
    assert (request.num_context_cells, request.num_following_cells) == (2, 0)
    # Half of a surrogate pair cannot be encoded: it is replaced, not passed on.
    assert (request.prefix, request.suffix) == ("a\ufffd", "b")


async def test_source_is_the_prefix_when_no_slot_is_given(fill):
    cells = [
        {"kind": "markdown", "source": "Count."},
        {"kind": "code", "source": "# count the rows"},
    ]
    lines = await fill(cells=cells, target_idx=1)
    assert lines[-2]["text"] == "\nx = 1"


async def test_markdown_target(fill):
    cells = [{"kind": "code", "source": "x = 1"}, {"kind": "markdown", "source": ""}]
    lines = await fill(cells=cells, target_idx=1, provider="fake:text=Some+words.")
    assert lines[-2]["text"] == "Some words."


@pytest.mark.parametrize("language", ["python", "Python", "ipython3", ""])
async def test_python_by_any_name(fill, language):
    assert (await fill(language=language))[-1]["type"] == "done"


@pytest.mark.parametrize("first_line", ["%%time", "%%timeit -n 3", "%matplotlib inline", "!ls"])
async def test_magics_that_leave_a_cell_python(fill, first_line):
    assert (await fill(prefix=first_line + "\n"))[-1]["type"] == "done"


async def test_string_that_looks_like_a_magic(fill):
    assert (await fill(prefix='s = """\n%%bash\n"""\n'))[-1]["type"] == "done"


async def test_providers(jp_fetch):
    response = await jp_fetch("jupyt5", "api", "providers")
    reply = json.loads(response.body)
    assert reply["default"] == "fake:text=x+=+1"
    assert reply["allowed"] == []
    assert "fake:" in [provider["uri"] for provider in reply["providers"]]


async def test_status(jp_fetch, fill):
    async def read():
        return json.loads((await jp_fetch("jupyt5", "api", "status")).body)

    before = await read()
    assert before["providers"] == [{"uri": "fake:text=x+=+1", "state": "absent", "reason": ""}]
    await fill()
    after = await read()
    assert after["providers"][0]["state"] == "ready"
    assert after["num_running"] == 0


def test_import_is_light():
    code = """
import sys, time
start = time.process_time()  # not the wall clock: the machine may be busy
import jupyt5.server
assert time.process_time() - start < 0.3
import jupyt5.server.app
heavy = {"torch", "ctranslate2", "transformers", "tokenizers", "numpy"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
