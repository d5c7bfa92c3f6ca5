"""What a run's results depend on in files: the model's weights, the data beside notebooks."""

from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from jupyt5.files import sha256_file
from jupyt5.providers import list_providers
from jupyt5_dsp.problems import digest

__all__ = ["digest_files", "digest_model"]

# What decoding reads; a README may change without changing the model.
_MODEL_FILES = (
    "jupyt5.json",
    "config.json",
    "model.bin",
    "model.safetensors",
    "shared_vocabulary.json",
    "tokenizer.json",
)


def digest_model(uri: str) -> str | None:
    """Return a digest of the files that a provider's weights are in; None without any here.

    The same URI may name other weights after another export.

    Raises:
        OSError: If a file cannot be read.
    """
    scheme, _, name = uri.partition(":")
    path = Path(name).expanduser()
    if scheme == "gguf":
        return digest_files(path.parent, [path])
    if scheme == "hf" and path.is_dir():
        return digest_files(path, (*path.glob("*.safetensors"), *path.glob("*.json")))
    if scheme != "jupyt5":
        return None
    bundled = {info.uri for info in list_providers() if info.available}
    folder = Path(str(resources.files("jupyt5"))) / "bundled" / name if uri in bundled else path
    return digest_files(folder, (folder / file_name for file_name in _MODEL_FILES))


def digest_files(root_path: Path, paths: Iterable[Path]) -> str:
    """Return a digest of the contents of those ``paths`` that are files, and of their names."""
    found = sorted(path for path in paths if path.is_file())
    parts = [(path.relative_to(root_path).as_posix(), sha256_file(path)) for path in found]
    return digest([part for pair in parts for part in pair])
