"""A fill request with ``try``: what comes back, and who may ask."""

import asyncio
import json
from pathlib import Path

import pytest
from tornado.httpclient import HTTPClientError

GOOD = "def add(a, b):\n    return a + b"
UNTRUSTED = (
    "the notebook as it was last saved is not trusted: save it, or use File → Trust Notebook"
)
WRONG = "def add(a, b):\n    return a - b"


def find(lines, kind):
    return [line for line in lines if line["type"] == kind]


def reasons(lines, state):
    return [line["reason"] for line in find(lines, "status") if line["state"] == state]


@pytest.mark.kernel
async def test_verdicts_from_the_live_kernel(fill, kernel, notebook, allow):
    await notebook()
    await allow()
    await kernel.run("offset = 0")
    lines = await fill(
        WRONG, "def add(a, b) return", GOOD + " + offset", kernel=kernel, above="offset = 7",
        provenance=True,
    )  # fmt: skip
    assert reasons(lines, "trying") == [""]
    found = {line["hypothesis_idx"]: line for line in find(lines, "verdict")}
    assert [found[idx]["verdict"] for idx in range(3)] == ["wrong", "syntax", "passed"]
    assert {line["how"] for line in found.values()} == {"live"}
    assert found[0]["message"] == "Grading cell 2 raised AssertionError."
    assert 0 < found[2]["wall_s"] < 5
    assert found[2]["flags"] == []
    (done,) = find(lines, "done")
    assert (done["order"], done["tried"], done["reason"]) == ([2, 0, 1], "live", "")
    assert done["provenance"]["num_candidates"] == 3
    # The reader's own next cell, and its number.
    assert (await kernel.run("1"))["execution_count"] == 2


@pytest.mark.kernel
async def test_prefix_and_suffix_are_part_of_the_cell(fill, kernel, notebook, allow):
    await notebook()
    await allow()
    lines = await fill(
        "return a + b", kernel=kernel, prefix="def add(a, b):\n    ", suffix="\n\nsum_ = add\n",
        test="assert sum_(1, 1) == 2",
    )  # fmt: skip
    assert [line["verdict"] for line in find(lines, "verdict")] == ["passed"]


@pytest.mark.kernel
async def test_equal_candidates_are_tried_once(fill, kernel, notebook, allow):
    await notebook()
    await allow()
    lines = await fill(GOOD, GOOD, kernel=kernel)
    walls = [(line["verdict"], line["wall_s"] > 0) for line in find(lines, "verdict")]
    assert walls == [("passed", True), ("passed", False)]


async def test_nothing_runs_before_somebody_allows_it(fill, notebook, app):
    await notebook()
    lines = await fill(GOOD)
    assert reasons(lines, "not_tried") == ["you have not allowed it for this notebook"]
    assert "provenance" not in lines[-1]
    lines = await fill(GOOD, provenance=True)
    assert lines[-1]["provenance"]["num_candidates"] == 1
    assert find(lines, "verdict") == []
    (done,) = find(lines, "done")
    assert (done["order"], done["tried"]) == ([0], "none")
    assert len(find(lines, "candidate")) == 1


async def test_a_consent_is_of_one_reader_for_one_notebook(fill, notebook, allow, jp_fetch):
    await notebook()
    assert (await allow(user="ana"))["allowed"]
    assert reasons(await fill(GOOD, user="ben"), "not_tried")
    await allow(path="course/other.ipynb", user="ben")
    assert reasons(await fill(GOOD, user="ben"), "not_tried")
    reply = await jp_fetch(
        "jupyt5", "api", "consent", params={"notebook_path": "/course/ex.ipynb"},
        headers={"X-User": "ana"},
    )  # fmt: skip
    assert json.loads(reply.body)["allowed"]
    assert not (await allow(False, user="ana"))["allowed"]
    assert reasons(await fill(GOOD, user="ana"), "not_tried")


async def test_untrusted_notebook(fill, allow, jp_root_dir):
    path = jp_root_dir / "course" / "ex.ipynb"
    path.parent.mkdir()
    # Not written by this server, so nobody has signed it.
    path.write_text(json.dumps(FOREIGN))
    await allow()
    assert reasons(await fill(GOOD), "not_tried") == [UNTRUSTED]


FOREIGN = {
    "nbformat": 4, "nbformat_minor": 5, "metadata": {},
    "cells": [
        {
            "cell_type": "code", "id": "a", "source": "1", "metadata": {}, "execution_count": 1,
            "outputs": [
                {
                    "output_type": "display_data", "metadata": {},
                    "data": {"text/html": "<script>1</script>"},
                }
            ],
        }
    ],
}  # fmt: skip


async def test_notebook_that_is_not_there(fill, allow):
    await allow()
    assert reasons(await fill(GOOD), "not_tried") == [UNTRUSTED]


@pytest.mark.parametrize(
    "wish", [{}, {"grading_idx": 1}, {"grading_idx": 9}, {"grading_idx": True}, 2]
)
async def test_malformed_wish(fill, wish):
    (line,) = await fill(GOOD, **{"try": wish})
    assert (line["type"], line["code"]) == ("error", "bad_request")


@pytest.mark.parametrize(
    "body", ["{}", "[]", '{"notebook_path": "a"}', '{"notebook_path": "a", "allowed": 1}']
)
async def test_malformed_consent(jp_fetch, app, body):
    with pytest.raises(HTTPClientError, match="400"):
        await jp_fetch("jupyt5", "api", "consent", method="POST", body=body)


class TestWithoutTheRight:
    @pytest.fixture
    def jp_server_config(self, jp_server_config):
        from jupyter_server.auth.authorizer import Authorizer

        class NoKernels(Authorizer):
            def is_authorized(self, handler, user, action, resource):
                return not (action == "execute" and resource == "kernels")

        jp_server_config["ServerApp"]["authorizer_class"] = NoKernels
        return jp_server_config

    async def test_refused(self, allow, fill, notebook, app):
        await notebook()
        with pytest.raises(HTTPClientError, match="403"):
            await allow()
        app.consent.set("ana", "course/ex.ipynb", allowed=True)
        assert reasons(await fill(GOOD), "not_tried") == ["you may not execute code on this server"]


class TestSwitchedOff:
    @pytest.fixture
    def jp_server_config(self, jp_server_config):
        jp_server_config["JuPyT5App"]["allow_try"] = False
        return jp_server_config

    async def test_refused(self, allow, fill, notebook):
        await notebook()
        assert not (await allow())["available"]
        assert reasons(await fill(GOOD), "not_tried") == [
            "the administrator has switched trying off"
        ]


async def test_damaged_record_allows_nothing(app, allow):
    await allow()
    path = app.consent._path
    assert path.stat().st_mode & 0o077 == 0
    path.write_text("{")
    assert not app.consent.allows("ana", "course/ex.ipynb")


@pytest.mark.kernel
async def test_fresh_kernel_where_none_runs(fill, notebook, allow, walls, jp_root_dir):
    await notebook()
    await allow()
    (jp_root_dir / "course" / "data.txt").write_text("3")
    lines = await fill(
        "def add(a, b):\n    open('data.txt', 'w').write('spoilt')\n    return a + b + base - 3",
        WRONG,
        above="base = int(open('data.txt').read())",
    )
    (why,) = reasons(lines, "trying")
    assert why.startswith("no kernel is running")
    found = {line["hypothesis_idx"]: line for line in find(lines, "verdict")}
    assert [found[idx]["verdict"] for idx in range(2)] == ["passed", "wrong"]
    assert {line["how"] for line in found.values()} == {"fresh"}
    assert (jp_root_dir / "course" / "data.txt").read_text() == "3"
    (done,) = find(lines, "done")
    assert (done["order"], done["tried"]) == ([0, 1], "fresh")


@pytest.mark.kernel
async def test_fresh_kernel_beside_one_with_threads(fill, notebook, allow, kernel):
    await notebook()
    await allow()
    await kernel.run(
        "import threading, time\n"
        "t = threading.Thread(target=time.sleep, args=(60,), daemon=True)\nt.start()"
    )
    lines = await fill(GOOD, kernel=kernel)
    (why,) = reasons(lines, "trying")
    assert "1 of its thread is running" in why
    (verdict,) = find(lines, "verdict")
    assert (verdict["verdict"], verdict["how"]) == ("passed", "fresh")


@pytest.mark.kernel
async def test_busy_kernel_is_not_waited_for(fill, notebook, allow, kernel):
    await notebook()
    await allow()
    running = asyncio.ensure_future(kernel.run("import time\ntime.sleep(6)\nx = 5"))
    while kernel.manager.execution_state != "busy":
        await asyncio.sleep(0.02)
    lines = await fill(GOOD, kernel=kernel)
    assert "busy for 2 s" in reasons(lines, "trying")[0]
    assert [line["how"] for line in find(lines, "verdict")] == ["fresh"]
    assert (await running)["status"] == "ok"


@pytest.mark.kernel
async def test_cancel_ends_what_is_tried(fill, notebook, allow, kernel, jp_fetch):
    await notebook()
    await allow()
    running = asyncio.ensure_future(fill("while True:\n    pass", kernel=kernel))
    while not _copies(kernel.pid):
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)
    await jp_fetch("jupyt5", "api", "fill", "r1", method="DELETE")
    lines = await running
    assert lines[-1]["code"] == "cancelled"
    await _wait_gone(kernel.pid)


async def _wait_gone(pid, limit_s=5.0):
    async with asyncio.timeout(limit_s):
        while _copies(pid):
            await asyncio.sleep(0.05)


def _copies(pid):
    """Processes with the kernel's command line that are not the kernel."""
    own = Path(f"/proc/{pid}/cmdline").read_bytes()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != pid:
            try:
                if (entry / "cmdline").read_bytes() == own:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
