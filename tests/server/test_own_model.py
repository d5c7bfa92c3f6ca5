"""The server takes the user's own model where nobody has set another one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from jupyt5.errors import ProviderError
from jupyt5.providers import load_provider
from jupyt5.providers.places import OWN_URI, bundled_folders, own_model_folder


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any]) -> dict[str, Any]:
    del jp_server_config["JuPyT5App"]  # no provider is set
    return jp_server_config


@pytest.fixture
def install() -> Any:
    def put() -> Path:
        folder = own_model_folder()
        shutil.rmtree(folder, ignore_errors=True)
        return Path(shutil.copytree(bundled_folders()[0], folder))

    return put


@pytest.fixture
def ask(jp_fetch: Any) -> Any:
    async def send(path: str) -> dict[str, Any]:
        return json.loads((await jp_fetch("jupyt5", "api", path)).body)

    return send


async def test_it_is_picked_up_while_the_server_runs(ask, fill, app, install):
    assert (await ask("status"))["default"] == "jupyt5:nano"
    listed = {each["uri"]: each for each in (await ask("providers"))["providers"]}
    assert listed[OWN_URI]["available"] is False
    assert "jupyt5-train mine" in listed[OWN_URI]["detail"]

    install()
    status = await ask("status")
    assert (status["default"], status["provider"], status["state"]) == (OWN_URI, OWN_URI, "idle")
    found = await ask("providers")
    assert found["default"] == OWN_URI
    assert {each["uri"]: each for each in found["providers"]}[OWN_URI]["available"] is True
    lines = await fill(max_tokens=2, provenance=True)
    assert lines[-1]["provenance"]["provider"] == OWN_URI
    assert len(lines[-1]["provenance"]["model_sha256"]) == 64


async def test_what_is_set_goes_first(ask, app, install):
    install()
    app.provider = "fake:"
    assert (await ask("status"))["default"] == "fake:"
    app.provider = ""
    app.allowed_providers = ["fake:"]  # an administrator who allows but this
    assert (await ask("status"))["default"] == "jupyt5:nano"
    app.allowed_providers = ["fake:", OWN_URI]
    assert (await ask("status"))["default"] == OWN_URI


async def test_a_newer_one_takes_its_place(fill, app, install):
    install()
    await fill(max_tokens=2)
    first = await app.engine.shelf.get(OWN_URI)
    install()
    await fill(request_id="r2", max_tokens=2)
    assert await app.engine.shelf.get(OWN_URI) is not first


def test_without_one_the_message_says_how_to_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    with pytest.raises(ProviderError, match="jupyt5-train mine FOLDER"):
        load_provider(OWN_URI)
