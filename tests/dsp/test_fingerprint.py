"""The same URI may name another model after another export."""

from pathlib import Path

import pytest

from jupyt5_dsp.fingerprint import digest_model


def test_other_weights_have_another_digest(tmp_path: Path) -> None:
    uri = f"jupyt5:{tmp_path}"
    (tmp_path / "jupyt5.json").write_text("{}")
    (tmp_path / "model.bin").write_bytes(b"one")
    first = digest_model(uri)
    (tmp_path / "README.md").write_text("read me")
    assert digest_model(uri) == first
    (tmp_path / "model.bin").write_bytes(b"two")
    assert digest_model(uri) != first


def test_provider_without_files_has_none() -> None:
    assert digest_model("fake:text=x") is None


@pytest.mark.parametrize(
    ("uri", "name"), [("gguf:{}/model.gguf", "model.gguf"), ("hf:{}", "model.safetensors")]
)
def test_other_models_are_told_by_their_files(tmp_path: Path, uri: str, name: str) -> None:
    (tmp_path / name).write_bytes(b"one")
    first = digest_model(uri.format(tmp_path))
    assert first
    (tmp_path / name).write_bytes(b"two")
    assert digest_model(uri.format(tmp_path)) not in {first, None}


def test_a_model_id_has_no_files_here() -> None:
    assert digest_model("hf:someone/a-model") is None
