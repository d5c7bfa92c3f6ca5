"""What the last line of a reply says of where the fill came from."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from jupyt5 import __version__
from jupyt5.errors import Jupyt5Error
from jupyt5.files import sha256_file
from jupyt5.providers import hide_secrets, load_provider
from jupyt5.providers.fake import FakeProvider
from jupyt5.providers.places import bundled_folders, find_stamp, hash_weights, hide_folders
from jupyt5.server.engine import FillEngine
from jupyt5.server.messages import parse_fill
from jupyt5.server.shelf import ProviderShelf

NANO = bundled_folders()[0]


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"old")
    return path


@pytest.fixture
def held_hash(monkeypatch):
    """Hashes take until this is set."""
    end = threading.Event()

    def wait_then_hash(uri, stamp):
        end.wait(10)
        return hash_weights(uri, stamp)

    monkeypatch.setattr("jupyt5.server.shelf.hash_weights", wait_then_hash)
    yield end
    end.set()


@pytest.fixture
def start(app, body, gguf):
    """Start a job against a file of weights; what generates is a fake."""
    engines = []

    def start(**fields):
        timeout_s = fields.pop("timeout_s", 30)
        shelf = ProviderShelf(lambda _: FakeProvider("text=x"))
        engines.append(FillEngine(shelf, max_parallel=1, timeout_s=timeout_s))
        raw = body(provider=f"gguf:{gguf}", **fields).encode()
        return engines[-1], engines[-1].stream(parse_fill(raw, app.limits))

    yield start
    for engine in engines:
        engine.close()


async def test_everything_that_makes_the_answer(fill):
    lines = await fill(
        n=3, seed=7, max_tokens=9, num_context_cells=2, num_following_cells=0, provenance=True
    )
    assert lines[-1]["provenance"] == {
        "provider": "fake:text=x+=+1",
        "model_sha256": None,
        "jupyt5_version": __version__,
        "seed": 7,
        "sampling": {"temperature": 0.8, "top_p": 0.95, "top_k": 50, "max_tokens": 9},
        "num_candidates": 3,
        "num_context_cells": 2,
        "num_following_cells": 0,
    }


async def test_one_candidate_is_greedy(fill):
    assert (await fill(provenance=True))[-1]["provenance"]["sampling"]["temperature"] == 0.0


async def test_the_bundled_models_hash_is_taken_once(fill, monkeypatch):
    calls: list[str] = []

    def count(uri, stamp):
        calls.append(uri)
        return hash_weights(uri, stamp)

    monkeypatch.setattr("jupyt5.server.shelf.hash_weights", count)
    for name in ("r1", "r2"):
        lines = await fill(request_id=name, provider="jupyt5:nano", max_tokens=2, provenance=True)
        assert lines[-1]["provenance"]["model_sha256"] == sha256_file(NANO / "model.bin")
    assert calls == ["jupyt5:nano"]


async def test_no_hash_where_nobody_asks(start, held_hash):
    _, stream = start()
    lines = [json.loads(each) async for each in stream]
    assert lines[-1] == {"type": "done", "request_id": "r1"}
    assert not held_hash.is_set()


async def test_a_wish_is_true_or_false(fill):
    assert (await fill(provenance="yes"))[-1]["message"] == "provenance must be true or false."


async def test_the_hash_is_of_the_weights_that_generated(start, gguf: Path, tmp_path: Path):
    engine, stream = start(provenance=True)
    lines = []
    async for each in stream:
        lines.append(json.loads(each))
        if lines[-1]["type"] == "candidate":
            newer = tmp_path / "newer"
            newer.write_bytes(b"newer")
            newer.rename(gguf)
            await engine.shelf.get(f"gguf:{gguf}")  # as another request does
    assert lines[-1]["provenance"]["provider"] == "gguf:a.gguf"
    # None: the weights were replaced before they were hashed.
    assert lines[-1]["provenance"]["model_sha256"] in (None, hashlib.sha256(b"old").hexdigest())


async def test_a_cancel_does_not_wait_for_the_hash(start, held_hash):
    engine, stream = start(provenance=True)
    lines = []
    async for each in stream:
        lines.append(json.loads(each))
        if lines[-1]["type"] == "candidate":
            engine.cancel("r1")
    assert (lines[-1]["type"], lines[-1]["code"]) == ("error", "cancelled")
    assert not held_hash.is_set()


async def test_an_answer_is_not_lost_where_the_hash_takes_too_long(start, held_hash):
    _, stream = start(provenance=True, timeout_s=0.5)
    lines = [json.loads(each) async for each in stream]
    assert lines[-1]["type"] == "done"
    assert lines[-1]["provenance"]["model_sha256"] is None
    assert not held_hash.is_set()


@pytest.mark.parametrize(
    "uri",
    [
        "fake:",
        "openai:m@http://h/v1",
        "jupyt5:/nowhere",
        "gguf:",
        "hf:some/id",
        "hf:~nouser/x",
        "nonsense",
    ],
)
def test_no_hash_where_there_is_no_one_file(uri: str):
    assert find_stamp(uri) is None
    assert hash_weights(uri, (1, 2, 3, 4)) is None


def test_hash_of_a_version_that_was_replaced(tmp_path: Path):
    path = tmp_path / "a.gguf"
    path.write_bytes(b"old")
    stamp = find_stamp(f"gguf:{path}")
    assert hash_weights(f"gguf:{path}", stamp) == sha256_file(path)
    path.write_bytes(b"newer")
    assert hash_weights(f"gguf:{path}", stamp) is None


@pytest.mark.parametrize("uri", ["jupyt5:~nouser/x", "gguf:~nouser/x.gguf", "gguf:\0", "jupyt5:\0"])
async def test_paths_that_are_none_are_a_plain_failure(uri: str):
    assert find_stamp(uri) is None
    assert hash_weights(uri, (1, 2, 3, 4)) is None
    shelf = ProviderShelf(load_provider)
    with pytest.raises(Jupyt5Error):
        await shelf.get(uri)
    assert shelf.state(uri).state == "failed"
    shelf.close()


async def test_replaced_weights_are_loaded_again(tmp_path: Path):
    folder = shutil.copytree(NANO, tmp_path / "own")
    uri = f"jupyt5:{folder}"
    shelf = ProviderShelf(load_provider)
    first = await shelf.get(uri)
    assert await shelf.get(uri) is first
    sha256 = await (await shelf.get_hashed(uri))[1]
    assert sha256 == sha256_file(folder / "model.bin")
    (folder / "model.bin").rename(tmp_path / "old.bin")
    assert await shelf.get(uri) is first  # gone for a moment
    shutil.copyfile(tmp_path / "old.bin", folder / "model.bin")
    os.utime(folder / "model.bin", (1, 1))
    second = await shelf.get(uri)
    assert second is not first
    assert await (await shelf.get_hashed(uri))[1] == sha256
    shelf.close()


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("jupyt5:nano", "jupyt5:nano"),
        ("openai:m@https://h/v1#fim", "openai:m@https://h/v1#fim"),
        ("openai:m@https://u:p@ss@h/v1#fim", "openai:m@https://h/v1#fim"),
        ("openai:m@https://u:p/w@h/v1", "openai:m@https://h/v1"),
        ("openai:m@https://h/v1?key=s#fim", "openai:m@https://h/v1#fim"),
    ],
)
def test_what_is_shown_of_a_uri(uri: str, shown: str):
    assert hide_secrets(uri) == shown


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("jupyt5:nano", "jupyt5:nano"),
        ("jupyt5:/home/ana/models/own/", "jupyt5:own"),
        ("gguf:~/models/a:b.gguf", "gguf:a:b.gguf"),
        ("hf:/srv/models/coder", "hf:coder"),
        ("hf:owner/coder", "hf:owner/coder"),
        ("openai:m@https://h/v1#fim", "openai:m@https://h/v1#fim"),
        ("fake:text=a/b", "fake:text=a/b"),
        ("nonsense", "nonsense"),
    ],
)
def test_folders_are_not_told(uri: str, shown: str):
    assert hide_folders(uri) == shown
