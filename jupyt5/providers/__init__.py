"""Providers: whatever can fill a cell, named by a URI."""

from jupyt5.providers.base import Chunk, FillRequest, Preview, Provider, ProviderInfo, Sampling
from jupyt5.providers.drafts import Draft, stream_drafts
from jupyt5.providers.registry import (
    DEFAULT_PROVIDER_URI,
    hide_secrets,
    list_providers,
    load_provider,
)

__all__ = [
    "DEFAULT_PROVIDER_URI",
    "Chunk",
    "Draft",
    "FillRequest",
    "Preview",
    "Provider",
    "ProviderInfo",
    "Sampling",
    "hide_secrets",
    "list_providers",
    "load_provider",
    "stream_drafts",
]
