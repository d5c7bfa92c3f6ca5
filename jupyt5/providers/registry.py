"""From a provider URI to a provider."""

from collections.abc import Callable
from importlib import resources
from pathlib import Path

from jupyt5.errors import ProviderError, UsageError
from jupyt5.providers.base import Provider, ProviderInfo

__all__ = ["DEFAULT_PROVIDER_URI", "list_providers", "load_provider"]

DEFAULT_PROVIDER_URI = "jupyt5:nano"


def load_provider(uri: str) -> Provider:
    """Load the provider that a URI names.

    Args:
        uri: ``jupyt5:nano`` (bundled), ``jupyt5:/path/to/checkpoint`` or ``fake:``.

    Raises:
        UsageError: If the URI has no known scheme; lists the schemes.
        ProviderError: If the model it names is missing or damaged.
    """
    scheme, separator, rest = uri.partition(":")
    loader = _LOADERS.get(scheme)
    if not separator or loader is None:
        message = (
            f"{uri!r} is not a provider URI. Use one of: jupyt5:nano, "
            "jupyt5:/path/to/checkpoint, fake:"
        )
        raise UsageError(message)
    return loader(rest)


def list_providers() -> tuple[ProviderInfo, ...]:
    """Describe the providers of this installation, the bundled models first."""
    bundled = tuple(
        ProviderInfo(f"jupyt5:{path.name}", available=True, detail="bundled model, runs locally")
        for path in _bundled_folders()
    )
    return (
        *(bundled or (ProviderInfo(DEFAULT_PROVIDER_URI, False, "not in this installation"),)),
        ProviderInfo("jupyt5:PATH", True, "a checkpoint folder of your own"),
        ProviderInfo("fake:", True, "fixed answers, for tests"),
    )


def _load_jupyt5(name: str) -> Provider:
    from jupyt5.providers.checkpoint import load_checkpoint_provider

    bundled = {path.name: path for path in _bundled_folders()}
    if name in bundled:
        return load_checkpoint_provider(bundled[name], uri=f"jupyt5:{name}")
    path = Path(name).expanduser()
    if not name or not path.is_dir():
        message = (
            f"There is no model jupyt5:{name}. Bundled models: {', '.join(bundled) or 'none'}; "
            "or give the path of a checkpoint folder, jupyt5:/path/to/checkpoint."
        )
        raise ProviderError(message)
    return load_checkpoint_provider(path, uri=f"jupyt5:{name}")


def _load_fake(spec: str) -> Provider:
    from jupyt5.providers.fake import FakeProvider

    return FakeProvider(spec)


def _bundled_folders() -> tuple[Path, ...]:
    root = Path(str(resources.files("jupyt5"))) / "bundled"
    if not root.is_dir():
        return ()
    return tuple(sorted(path for path in root.iterdir() if (path / "jupyt5.json").is_file()))


_LOADERS: dict[str, Callable[[str], Provider]] = {"jupyt5": _load_jupyt5, "fake": _load_fake}
