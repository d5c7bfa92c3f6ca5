"""From a provider URI to a provider."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jupyt5.errors import ProviderError, UsageError
from jupyt5.providers.base import Provider, ProviderInfo
from jupyt5.providers.places import (
    BUNDLED_URI,
    OWN_URI,
    bundled_folders,
    is_model_folder,
    own_model_folder,
)

if TYPE_CHECKING:
    from jupyt5.providers.openai import OpenAISettings

__all__ = ["DEFAULT_PROVIDER_URI", "hide_secrets", "list_providers", "load_provider"]

DEFAULT_PROVIDER_URI = BUNDLED_URI

_CREDENTIALS = re.compile(r"(?<=://).*@|\?[^#]*")


def load_provider(uri: str, *, openai: "OpenAISettings | None" = None) -> Provider:
    """Load the provider that a URI names.

    Args:
        uri: ``jupyt5:nano`` (bundled), ``jupyt5:mine`` (made by ``jupyt5-train mine``),
            ``jupyt5:/path/to/checkpoint``, ``gguf:/path/to/file``, ``hf:/path-or-id``,
            ``openai:MODEL@BASE_URL`` or ``fake:``.
        openai: Key and limits for ``openai:``; by default those of the environment.

    Raises:
        UsageError: If the URI has no known scheme; lists the schemes.
        ProviderError: If the model it names is missing or damaged.
    """
    scheme, separator, rest = uri.partition(":")
    loader = _LOADERS.get(scheme)
    if not separator or loader is None:
        message = (
            f"{hide_secrets(uri)!r} is not a provider URI. Use one of: jupyt5:nano, jupyt5:mine, "
            "jupyt5:/path/to/checkpoint, gguf:/path/to/model.gguf, hf:/path/to/model, "
            "openai:MODEL@BASE_URL, fake:"
        )
        raise UsageError(message)
    return _load_openai(rest, openai) if scheme == "openai" else loader(rest)


def hide_secrets(uri: str) -> str:
    """Return a URI as it may be shown: without what could be a password, or a key in a query.

    Such a URI is refused when it is loaded; until then it stands in settings and messages.
    """
    return _CREDENTIALS.sub("", uri) if "://" in uri else uri


def list_providers() -> tuple[ProviderInfo, ...]:
    """Describe the providers of this installation, the bundled models first."""
    bundled = tuple(
        ProviderInfo(f"jupyt5:{path.name}", available=True, detail="bundled model, runs locally")
        for path in bundled_folders()
    )
    return (
        *(bundled or (ProviderInfo(DEFAULT_PROVIDER_URI, False, "not in this installation"),)),
        _describe_own(),
        ProviderInfo("jupyt5:PATH", True, "a checkpoint folder of your own"),
        _describe_optional("gguf:PATH", "a GGUF file, run by llama.cpp", "llama_cpp", "gguf"),
        _describe_optional("hf:PATH", "a folder or id for transformers", "transformers", "hf"),
        ProviderInfo("openai:MODEL@BASE_URL", True, "an OpenAI-compatible server"),
        ProviderInfo("fake:", True, "fixed answers, for tests"),
    )


def _describe_own() -> ProviderInfo:
    if is_model_folder(own_model_folder()):
        return ProviderInfo(OWN_URI, True, "made from your own notebooks, runs locally")
    return ProviderInfo(OWN_URI, False, "made from your own notebooks; jupyt5-train mine FOLDER")


def _describe_optional(uri: str, what: str, module: str, extra: str) -> ProviderInfo:
    if find_spec(module) is not None:
        return ProviderInfo(uri, True, what)
    return ProviderInfo(uri, False, f"{what}; pip install 'jupyt5[{extra}]'")


def _load_jupyt5(name: str) -> Provider:
    from jupyt5.providers.checkpoint import load_checkpoint_provider

    bundled = {path.name: path for path in bundled_folders()}
    if name in bundled:
        return load_checkpoint_provider(bundled[name], uri=f"jupyt5:{name}")
    if f"jupyt5:{name}" == OWN_URI:
        return _load_own()
    path = Path(name).expanduser()
    if not name or not path.is_dir():
        message = (
            f"There is no model jupyt5:{name}. Bundled models: {', '.join(bundled) or 'none'}; "
            "or give the path of a checkpoint folder, jupyt5:/path/to/checkpoint."
        )
        raise ProviderError(message)
    return load_checkpoint_provider(path, uri=f"jupyt5:{name}")


def _load_own() -> Provider:
    from jupyt5.providers.checkpoint import load_checkpoint_provider

    folder = own_model_folder()
    if not is_model_folder(folder):
        message = (
            f"There is no model {OWN_URI} yet: {folder} is missing. Make it from your own "
            "notebooks with: jupyt5-train mine FOLDER"
        )
        raise ProviderError(message)
    return load_checkpoint_provider(folder, uri=OWN_URI)


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


_LOADERS: dict[str, Callable[[str], Provider]] = {
    "jupyt5": _load_jupyt5,
    "gguf": _load_gguf,
    "hf": _load_hf,
    "openai": _load_openai,
    "fake": _load_fake,
}
