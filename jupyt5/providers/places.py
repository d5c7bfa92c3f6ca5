"""Where a local provider's model lies: bundled, the user's own, or a path in the URI."""

from importlib import resources
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir

from jupyt5.errors import CheckpointError
from jupyt5.files import sha256_file
from jupyt5.model.checkpoint import META_NAME, detect_runtime

__all__ = [
    "BUNDLED_URI",
    "OWN_URI",
    "Stamp",
    "bundled_folders",
    "find_default_uri",
    "find_stamp",
    "hash_weights",
    "hide_folders",
    "is_model_folder",
    "own_model_folder",
]

BUNDLED_URI = "jupyt5:nano"
OWN_URI = "jupyt5:mine"
"""What ``jupyt5-train mine`` has made of the user's notebooks."""

Stamp = tuple[int, int, int, int]
"""Tells one version of a file from the next: inode, times of its content and of its entry in ns
(a copy may have the former from its original), size in bytes."""

_WEIGHTS_OF_RUNTIME = {"ctranslate2": "model.bin", "torch": "model.safetensors"}


def bundled_folders() -> tuple[Path, ...]:
    """Return the folders of the models that came with the package."""
    root = Path(str(resources.files("jupyt5"))) / "bundled"
    if not root.is_dir():
        return ()
    return tuple(sorted(path for path in root.iterdir() if is_model_folder(path)))


def own_model_folder() -> Path:
    """Return where ``jupyt5:mine`` lies, whether or not it is there."""
    return Path(jupyter_data_dir()) / "jupyt5" / "models" / "mine"


def is_model_folder(folder: Path) -> bool:
    """Whether a folder holds a checkpoint, by its description alone."""
    return (folder / META_NAME).is_file()


def find_default_uri() -> str:
    """Return the provider of who has set none: the user's own model, else the bundled one."""
    return OWN_URI if is_model_folder(own_model_folder()) else BUNDLED_URI


def find_stamp(uri: str) -> Stamp | None:
    """Tell which version of its weights a URI names now; None where they are in no one file."""
    try:
        path = _find_weights(uri)
        status = path.stat() if path else None
    except (OSError, RuntimeError, ValueError):  # the latter: ~nobody, and no path at all
        return None
    if status is None:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def hash_weights(uri: str, stamp: Stamp | None) -> str | None:
    """Return the SHA-256 of a provider's weights, as 64 hex digits.

    Args:
        uri: The provider.
        stamp: Of the version that is meant.

    Returns:
        None where that version is gone, or was never in one file of this machine.
    """
    try:
        path = _find_weights(uri)
        digest = sha256_file(path) if path and stamp else None
    except (OSError, RuntimeError, ValueError):
        return None
    return digest if find_stamp(uri) == stamp else None


def hide_folders(uri: str) -> str:
    """Return a provider's URI with only the last part of a path on this machine.

    A notebook that is shared tells nobody where its author keeps things.
    """
    scheme, _, name = uri.partition(":")
    path = Path(name)
    is_local = scheme in ("jupyt5", "gguf") or (
        scheme == "hf" and (path.is_absolute() or name.startswith((".", "~")) or path.exists())
    )
    return f"{scheme}:{path.name}" if is_local and path.name else uri


def _find_weights(uri: str) -> Path | None:
    scheme, _, name = uri.partition(":")
    if scheme == "gguf" and name:
        return Path(name).expanduser()
    if scheme == "hf" and name:
        path = Path(name).expanduser() / "model.safetensors"
        return path if path.is_file() else None
    if scheme != "jupyt5" or not name:
        return None
    folder = Path(name).expanduser()
    if uri == OWN_URI:
        folder = own_model_folder()
    else:
        folder = next((each for each in bundled_folders() if each.name == name), folder)
    try:
        weights = _WEIGHTS_OF_RUNTIME.get(detect_runtime(folder))
    except CheckpointError:
        return None
    return folder / weights if weights else None
