"""Whom to ask, with which key, and for how long: all that is known before a request."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal, TypedDict, Unpack, cast, get_args

import httpx

from jupyt5.errors import ProviderError, UsageError

__all__ = ["Address", "OpenAISettings", "Style", "parse_address"]

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_KEY_ENV = "OPENAI_API_KEY"

Style = Literal["chat", "fim", "completions"]

_SPEC = re.compile(r"(?P<model>[^\s#]+?)(?:@(?P<url>https?://[^\s#]*))?(?:#(?P<style>\w*))?")
_KEY = re.compile(r"[\x21-\x7e]+")
_FORM = "openai:MODEL@BASE_URL, e.g. openai:qwen2.5-coder@http://127.0.0.1:11434/v1"


class _Limits(TypedDict, total=False):
    connect_timeout_s: float
    read_timeout_s: float
    total_timeout_s: float
    num_retries: int
    budget_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings:
    """A user's or administrator's settings; the key is for ``base_url`` and no other server.

    Attributes:
        base_url: The server that ``openai:MODEL`` means.
        key: Its key, "" for none. Sent to the host of ``base_url`` only, whatever a URI names.
        key_env: Name of the environment variable the key comes from, for messages.
        connect_timeout_s: Seconds to reach the server.
        read_timeout_s: Longest silence in an answer, in seconds.
        total_timeout_s: Longest answer to one request, in seconds, further tries included.
        num_retries: Further tries when a server is overloaded (429), fails (5xx) or is not reached.
        budget_tokens: Most tokens of a notebook that are sent unless a request says how many, as
            estimated from their bytes; a model that has a token for each digit may count three
            times as many. What a server can take is not known here: some cut longer prompts
            without a word.
    """

    base_url: str = DEFAULT_BASE_URL
    key: str = field(default="", repr=False)
    key_env: str = DEFAULT_KEY_ENV
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 60.0
    total_timeout_s: float = 300.0
    num_retries: int = 3
    budget_tokens: int = 2048

    def __post_init__(self) -> None:
        """Check the address and the key.

        Raises:
            UsageError: If ``base_url`` is no plain web address.
            ProviderError: If the key cannot be a key; does not show it.
        """
        _check_url(self.base_url)
        if self.key and not _KEY.fullmatch(self.key):
            message = (
                f"The key from {self.key_env} holds blanks, line breaks or letters that no key "
                "has. Set it again."
            )
            raise ProviderError(message)

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str] = os.environ,
        *,
        base_url: str = "",
        key_env: str = "",
        key: str = "",
        **limits: Unpack["_Limits"],
    ) -> "OpenAISettings":
        """Take address and key from ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``.

        Args:
            environ: The environment.
            base_url: Wins over ``OPENAI_BASE_URL``.
            key_env: Name of another variable that holds the key.
            key: Wins over the variable.
            limits: As they are in the class.
        """
        key_env = key_env or DEFAULT_KEY_ENV
        return cls(
            base_url=base_url or environ.get("OPENAI_BASE_URL", "").strip() or DEFAULT_BASE_URL,
            key=(key or environ.get(key_env, "")).strip(),
            key_env=key_env,
            **limits,
        )

    def find_key(self, base_url: str) -> str:
        """Return the key for a server, "" for every other server than the one it was set for."""
        return self.key if _origin(base_url) == _origin(self.base_url) else ""


@dataclass(frozen=True, slots=True)
class Address:
    """A model on a server, and how the server is asked."""

    model: str
    base_url: str
    style: Style

    @property
    def url(self) -> str:
        """Where requests go."""
        path = "chat/completions" if self.style == "chat" else "completions"
        return f"{self.base_url}/{path}"

    @property
    def is_loopback(self) -> bool:
        """Whether the server runs on this machine, so that no proxy stands between."""
        host = httpx.URL(self.base_url).host
        try:
            return host == "localhost" or ip_address(host).is_loopback
        except ValueError:
            return False


def parse_address(spec: str, settings: OpenAISettings) -> Address:
    """Read what stands behind ``openai:``.

    Args:
        spec: ``MODEL@BASE_URL`` or ``MODEL``, with ``#chat``, ``#fim`` or ``#completions`` behind.
        settings: Says which server a mere ``MODEL`` is on.

    Raises:
        UsageError: If it is not of that form, or the URL holds a password or query.
    """
    found = _SPEC.fullmatch(spec)
    if found is None or "://" in found["model"]:
        raise UsageError(f"openai: must be followed by a model and a server. Write {_FORM}.")
    style = found["style"] or "chat"
    if style not in get_args(Style):
        message = f"openai: does not know #{style}. Use #chat, #fim, #completions or nothing."
        raise UsageError(message)
    base_url = found["url"] or settings.base_url
    _check_url(base_url)
    return Address(found["model"], base_url.rstrip("/"), cast("Style", style))


def _check_url(base_url: str) -> None:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host:
        message = (
            f"The server of an openai: provider is not an http or https address. Write {_FORM}."
        )
        raise UsageError(message)
    if url.userinfo or url.query or url.fragment:
        # Not shown: what stands there may be a secret, and URIs are recorded in results.
        message = (
            f"The address of {url.host} in an openai: provider may hold no user name, password or "
            "query. Keys come from an environment variable, OPENAI_API_KEY unless set otherwise."
        )
        raise UsageError(message)


def _origin(base_url: str) -> tuple[str, str, int]:
    url = httpx.URL(base_url)
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}[url.scheme]
