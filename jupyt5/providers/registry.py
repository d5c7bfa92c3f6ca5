"""From a provider URI to a provider."""

from collections.abc import Callable
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jupyt5.errors import ProviderError, UsageError
from jupyt5.providers.base import Provider, ProviderInfo

if TYPE_CHECKING:
    from jupyt5.providers.openai import OpenAISettings

__all__ = ["DEFAULT_PROVIDER_URI", "list_providers", "load_provider"]

DEFAULT_PROVIDER_URI = "jupyt5:nano"


def load_provider(uri: str, *, openai: "OpenAISettings | None" = None) -> Provider:
    """Load the provider that a URI names.

    Args:
        uri: ``jupyt5:nano`` (bundled), ``jupyt5:/path/to/checkpoint``, ``gguf:/path/to/file``,
            ``hf:/path-or-id``, ``openai:MODEL@BASE_URL`` or ``fake:``.
        openai: Key and limits for ``openai:``; by default those of the environment.

    Raises:
        UsageError: If the URI has no known scheme; lists the schemes.
        ProviderError: If the model it names is missing or damaged.
    """
    scheme, separator, rest = uri.partition(":")
    loader = _LOADERS.get(scheme)
    if not separator or loader is None:
        message = (
            f"{uri!r} is not a provider URI. Use one of: jupyt5:nano, "
            "jupyt5:/path/to/checkpoint, gguf:/path/to/model.gguf, hf:/path/to/model, "
            "openai:MODEL@BASE_URL, fake:"
        )
        raise UsageError(message)
    return _load_openai(rest, openai) if scheme == "openai" else loader(rest)


def list_providers() -> tuple[ProviderInfo, ...]:
    """Describe the providers of this installation, the bundled models first."""
    bundled = tuple(
        ProviderInfo(f"jupyt5:{path.name}", available=True, detail="bundled model, runs locally")
        for path in _bundled_folders()
    )
    return (
        *(bundled or (ProviderInfo(DEFAULT_PROVIDER_URI, False, "not in this installation"),)),
        ProviderInfo("jupyt5:PATH", True, "a checkpoint folder of your own"),
        _describe_optional("gguf:PATH", "a GGUF file, run by llama.cpp", "llama_cpp", "gguf"),
        _describe_optional("hf:PATH", "a folder or id for transformers", "transformers", "hf"),
        ProviderInfo("openai:MODEL@BASE_URL", True, "an OpenAI-compatible server"),
        ProviderInfo("fake:", True, "fixed answers, for tests"),
    )


def _describe_optional(uri: str, what: str, module: str, extra: str) -> ProviderInfo:
    if find_spec(module) is not None:
        return ProviderInfo(uri, True, what)
    return ProviderInfo(uri, False, f"{what}; pip install 'jupyt5[{extra}]'")


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


def _load_gguf(name: str) -> Provider:
    from jupyt5.providers.gguf import load_gguf_provider

    return load_gguf_provider(name)


def _load_hf(name: str) -> Provider:
    from jupyt5.providers.hf import load_hf_provider

    return load_hf_provider(name)


def _load_openai(spec: str, settings: "OpenAISettings | None" = None) -> Provider:
    from jupyt5.providers.openai import load_openai_provider

    return load_openai_provider(spec, settings)


def _load_fake(spec: str) -> Provider:
    from jupyt5.providers.fake import FakeProvider

    return FakeProvider(spec)


def _bundled_folders() -> tuple[Path, ...]:
    root = Path(str(resources.files("jupyt5"))) / "bundled"
    if not root.is_dir():
        return ()
    return tuple(sorted(path for path in root.iterdir() if (path / "jupyt5.json").is_file()))


_LOADERS: dict[str, Callable[[str], Provider]] = {
    "jupyt5": _load_jupyt5,
    "gguf": _load_gguf,
    "hf": _load_hf,
    "openai": _load_openai,
    "fake": _load_fake,
}
