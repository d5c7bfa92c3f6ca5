"""What a run's results depend on in files: the model's weights, the data beside notebooks."""

from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from jupyt5.files import sha256_file
from jupyt5.providers import list_providers
from jupyt5_dsp.problems import digest

__all__ = ["digest_files", "digest_model"]

_SCHEME = "jupyt5:"
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
    """Return a digest of a ``jupyt5:`` provider's files; None for a provider without any.

    The same URI may name other weights after another export.

    Raises:
        OSError: If a file cannot be read.
    """
    if not uri.startswith(_SCHEME):
        return None
    name = uri.removeprefix(_SCHEME)
    bundled = {info.uri for info in list_providers() if info.available}
    folder = Path(name).expanduser()
    if uri in bundled:
        folder = Path(str(resources.files("jupyt5"))) / "bundled" / name
    return digest_files(folder, (folder / name for name in _MODEL_FILES))


def digest_files(root_path: Path, paths: Iterable[Path]) -> str:
    """Return a digest of the contents of those ``paths`` that are files, and of their names."""
    found = sorted(path for path in paths if path.is_file())
    parts = [(path.relative_to(root_path).as_posix(), sha256_file(path)) for path in found]
    return digest([part for pair in parts for part in pair])
