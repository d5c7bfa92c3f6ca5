"""The same URI may name another model after another export."""

from pathlib import Path

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
