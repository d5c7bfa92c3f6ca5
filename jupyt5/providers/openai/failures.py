"""What can go wrong with a server, in one clear message each."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import httpx

from jupyt5.errors import OfflineError, ProviderError
from jupyt5.providers.openai.settings import Address, OpenAISettings

__all__ = ["Explainer", "RefusalError", "dig", "read_refusal"]

_QUOTED_CHARS = 200
_NOBODY_BEHIND = {502, 503, 504}  # a gateway's words for a server that is not there
_MARKUP = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)", re.IGNORECASE)


class RefusalError(Exception):
    """A server answered with another status than 200.

    Attributes:
        status: HTTP status.
        said: The server's own words, shortened.
        retry_after: Its Retry-After header, "" without one.
        location: Where it redirects to, "" if it does not.
        num_retries: Further tries that were made.
    """

    def __init__(
        self, status: int, said: str, *, retry_after: str = "", location: str = ""
    ) -> None:
        super().__init__(f"{status}: {said}")
        self.status = status
        self.said = said
        self.retry_after = retry_after
        self.location = location
        self.num_retries = 0


def dig(value: object, *path: str | int) -> object:
    """Follow keys and indices into JSON; None where there is nothing of that kind."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = cast("Mapping[str, object]", value).get(step)
        elif isinstance(step, int) and isinstance(value, list):
            items = cast("list[object]", value)
            value = items[step] if step < len(items) else None
        else:
            return None
    return value


def read_refusal(response: httpx.Response, body: bytes, *, key: str) -> RefusalError:
    """Make an error of a response whose status is not 200; some servers repeat the key."""
    text = body.decode("utf-8", "replace")
    text = text.replace(key, "[key]") if key else text
    return RefusalError(
        response.status_code,
        "it answered with a web page" if _MARKUP.match(text) else _find_message(text),
        retry_after=response.headers.get("retry-after", ""),
        location=response.headers.get("location", "") if response.is_redirect else "",
    )


def _find_message(text: str) -> str:
    try:
        found: object = json.loads(text)
    except ValueError:
        return text.strip()
    for path in (("error", "message"), ("error",), ("message",), ("detail",)):
        message = dig(found, *path)
        if isinstance(message, str) and message.strip():
            return message.strip()
    return text.strip()


@dataclass(frozen=True, slots=True)
class Explainer:
    """Turns failures of one server into messages; the key is in none of them."""

    address: Address
    settings: OpenAISettings

    def refusal(self, error: RefusalError) -> ProviderError:
        """Explain a status."""
        status, base_url = error.status, self.address.base_url
        said = f" ({status}): {self._quote(error.said)}." if error.said else f" ({status})."
        word = "try" if error.num_retries == 1 else "tries"
        tries = f", also after {error.num_retries} further {word}" if error.num_retries else ""
        if status in {401, 403}:
            return OfflineError(self._explain_key(said))
        if error.location:
            return OfflineError(
                f"{base_url} redirects ({status}) to {self._quote(error.location)}. "
                "Write that server's address into the provider's URI."
            )
        if status == 404:
            return OfflineError(
                f"{base_url} has no such page, or no model {self.address.model}{said} Check the "
                "model's name, and the address, which for most servers ends in /v1."
            )
        if status == 429:
            wait = f" It asks to wait {error.retry_after} s." if error.retry_after else ""
            return ProviderError(
                f"{base_url} has too many requests{tries}{said}{wait} Try again later, or ask for "
                "fewer candidates."
            )
        if status >= 500:
            kind = OfflineError if status in _NOBODY_BEHIND else ProviderError
            return kind(f"{base_url} failed{tries}{said} Its own log may say why.")
        return ProviderError(f"{base_url} refused the request{said}")

    def transport(self, error: httpx.RequestError) -> ProviderError:
        """Explain why no answer came, or why it broke off."""
        base_url, settings = self.address.base_url, self.settings
        reason = self._quote(str(error)) or type(error).__name__
        if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
            message = (
                f"{base_url} was not reached in {settings.connect_timeout_s:g} s. Check the "
                "address, the network and the proxy."
            )
        elif isinstance(error, httpx.TimeoutException):
            return ProviderError(
                f"{base_url} was silent for {settings.read_timeout_s:g} s and was given up. It may "
                "be loading the model: try again, or raise the time limit."
            )
        elif isinstance(error, httpx.ProxyError):
            message = (
                f"The proxy on the way to {base_url} refused: {reason}. Check HTTPS_PROXY, "
                "HTTP_PROXY and NO_PROXY."
            )
        elif isinstance(error, httpx.ConnectError):
            message = (
                f"No server answers at {base_url}: {reason}. Start it, or correct the address in "
                "the provider's URI."
            )
        else:
            return self.broken_off(reason)
        return OfflineError(message)

    def broken_off(self, reason: str) -> ProviderError:
        """Explain half an answer."""
        return ProviderError(
            f"The answer of {self.address.base_url} broke off in the middle ({reason}). "
            "Nothing was taken from it. Try again."
        )

    def said_nothing(self) -> ProviderError:
        """Explain an answer that ended before it began."""
        return ProviderError(
            f"{self.address.base_url} took the request and answered nothing. Its own log may say "
            "why; often the cells around are longer than its model can read."
        )

    def not_the_protocol(self, content_type: str, start: str) -> ProviderError:
        """Explain an answer of status 200 that is no event stream and no JSON."""
        what = "a web page" if _MARKUP.match(start) else f"{content_type or 'no content type'}"
        return OfflineError(
            f"{self.address.url} answered with {what}, not with a model's answer. The address in "
            "the provider's URI seems to be wrong; for most servers it ends in /v1."
        )

    def malformed(self, piece: str) -> ProviderError:
        """Explain a piece of a stream that is not JSON, or not of the protocol."""
        return ProviderError(
            f"{self.address.base_url} sent something else than OpenAI's protocol has: "
            f"{self._quote(piece)}"
        )

    def said_error(self, said: str) -> ProviderError:
        """Explain an error that a server reports inside its stream."""
        return ProviderError(f"{self.address.base_url} failed while answering: {self._quote(said)}")

    def too_slow(self) -> ProviderError:
        """Explain that the whole answer took too long."""
        return ProviderError(
            f"{self.address.base_url} did not end its answer in "
            f"{self.settings.total_timeout_s:g} s and was given up. Ask for fewer tokens, or raise "
            "the time limit."
        )

    def line_too_long(self, limit_bytes: int) -> ProviderError:
        """Explain a line without end."""
        return ProviderError(
            f"{self.address.base_url} sent a line of more than {limit_bytes >> 10} KiB, which no "
            "answer has. Its own log may say why."
        )

    def too_long(self) -> ProviderError:
        """Explain an answer without end."""
        return ProviderError(f"{self.address.base_url} sent far more text than was asked for.")

    def _explain_key(self, said: str) -> str:
        base_url, key_env = self.address.base_url, self.settings.key_env
        if self.settings.find_key(base_url):
            return f"{base_url} refused the key{said} Set {key_env} to a key of that server."
        return (
            f"{base_url} wants a key and none was sent{said} Set {key_env}, and OPENAI_BASE_URL="
            f"{base_url}: a key goes only to the server it is set for. On a Jupyter server the "
            "administrator sets c.JuPyT5App.openai_base_url and openai_key_env."
        )

    def _quote(self, text: str) -> str:
        text = " ".join(text.split())
        if self.settings.key:
            text = text.replace(self.settings.key, "[key]")
        text = text if len(text) <= _QUOTED_CHARS else text[:_QUOTED_CHARS] + "…"
        return text.rstrip(".")
