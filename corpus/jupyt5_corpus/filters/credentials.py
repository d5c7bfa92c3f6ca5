"""Keys, tokens and passwords in a notebook's text, found by two maintained detectors.

``kingfisher`` (MongoDB; 488 rules in one automaton, over 200 MB a second) knows the tokens of
providers. ``detect-secrets`` (Bridgecrew's edition) knows what no provider's pattern tells:
passwords in assignments, and random strings. It goes line by line, so it sees only lines with a
word such as ``key`` or ``password``, and of its random strings only those on such lines: alone
they would be git commits, checksums and pictures. Neither ever asks a provider anything.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

from detect_secrets.filters import heuristic
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.high_entropy_strings import (
    Base64HighEntropyString,
    HexHighEntropyString,
)
from detect_secrets.plugins.keyword import KeywordDetector
from kingfisher_sdk import Rules, Scanner

from jupyt5_corpus.filters.spans import KEY, PASSWORD, Span

__all__ = ["WORDS", "find_credentials", "load_scanner"]

WORDS = ("key", "token", "secret", "pass", "pwd", "client", "contrase")
"""Lower-case words of which a line must have one for ``detect-secrets`` to see it; every keyword
of its own list holds one of them."""

_MAX_LINE_CHARS = 1_000
"""Longer lines are data; the patterns of ``detect-secrets`` would take long over them."""

_IDENTIFIER = re.compile(r"-(?:id|url|name|host|domain|address|repository|username)(?:\.\d+)?$")
"""Rules for the public half of a pair of credentials, which ``kingfisher`` does not report."""

_PASSWORD_RULE = re.compile(r"credential-uri|password")
_PASSWORD_WORD = re.compile(r"pass|pwd|contrase", re.IGNORECASE)

_PLACEHOLDER = re.compile(
    r"your|xxxx|example|placeholder|insert|paste|replace|change.?me|dummy|\.\.\.|\*\*\*|[<>{]",
    re.IGNORECASE,
)
"""What stands in documentation where a secret belongs."""
_MAX_PLACEHOLDER_CHARS = 200
"""In longer secrets, such as private keys, one of the words above may stand by chance."""
_MIN_DISTINCT_CHARS = 5

_MIN_RANDOM_CHARS = 20
_RANDOM = (Base64HighEntropyString(limit=4.5), HexHighEntropyString(limit=3.0))
_TOKENS = (AWSKeyDetector(), DiscordBotTokenDetector())
# In a notebook, `token` is more often a piece of text.
_KEYWORD = KeywordDetector(keyword_exclude=r"tokeni[sz]|(?:pad|unk|eos|bos|oov|mask|cls|sep)_token")
# All of its patterns want one of these. They are slow; this is not.
_MAY_ASSIGN = re.compile(r"""[:=>]\s*['"`]|['"`]\s*[!=]=|['"`];|data\.put\(""", re.IGNORECASE)
_PLAUSIBLE_PASSWORD = re.compile(
    r"(?=.*[A-Za-z])(?=.*[0-9!@#$%^&*+?=~])"  # a letter and something else
    r"(?![a-z_-]+[0-9]?$)"  # no name, not even with a number
    r"(?!.*\.[A-Za-z][A-Za-z0-9]{1,4}$)"  # no file name
    r"[^\s()\[\],/\\]{6,200}"  # neither words nor code nor a path
)


@cache
def load_scanner(rules_dir: Path | None) -> Scanner:
    """Compile the rules of ``kingfisher``, once a process.

    Args:
        rules_dir: Folder that keeps the compiled rules for other processes and later runs (0.4 s
            to load instead of 5 s to compile); None to keep them nowhere.
    """
    kept = None if rules_dir is None else str(rules_dir)
    rules = Rules(confidence="low", cache=rules_dir is not None, cache_dir=kept)
    return Scanner(rules, base64=False)


def find_credentials(text: str, scanner: Scanner) -> Iterator[Span]:
    """Yield the places of credentials; they may overlap."""
    yield from _find_provider_tokens(text, scanner)
    yield from _find_on_lines(text)


def _find_provider_tokens(text: str, scanner: Scanner) -> Iterator[Span]:
    data = text.encode("utf-8", "replace")
    findings = scanner.scan(data)
    if b"&" in data:
        # The rules end a token at a quote or white space, but a URL's parameter ends at an &.
        findings += scanner.scan(data.replace(b"&", b" "))
    found: list[tuple[int, str, str]] = []
    for finding in findings:
        secret = finding.secret
        if _is_placeholder(secret) or (not finding.visible and _IDENTIFIER.search(finding.rule_id)):
            continue
        start_byte = data.find(secret.encode(), finding.location["start_offset"])
        if start_byte >= 0:
            placeholder = PASSWORD if _PASSWORD_RULE.search(finding.rule_id) else KEY
            found.append((start_byte, secret, placeholder))
    num_chars = num_bytes = 0  # Of the text before the place at hand.
    for start_byte, secret, placeholder in sorted(found):
        num_chars += len(data[num_bytes:start_byte].decode())
        num_bytes = start_byte
        yield Span(num_chars, num_chars + len(secret), placeholder)


def _find_on_lines(text: str) -> Iterator[Span]:
    lowered = text.lower()
    if len(lowered) != len(text):  # A few letters become two in lower case.
        lowered = "".join(char if len(char.lower()) > 1 else char.lower() for char in text)
    for start in sorted(set(_line_starts(lowered))):
        end = text.find("\n", start)
        line = text[start : end if end >= 0 else len(text)]
        if len(line) > _MAX_LINE_CHARS:
            continue
        for secret, placeholder in _secrets_of_line(line):
            place = line.find(secret)
            while place >= 0:
                yield Span(start + place, start + place + len(secret), placeholder)
                place = line.find(secret, place + len(secret))


def _line_starts(lowered: str) -> Iterator[int]:
    """Yield the first character of every line with one of the words, some more than once."""
    for word in WORDS:
        place = lowered.find(word)
        while place >= 0:
            yield lowered.rfind("\n", 0, place) + 1
            end = lowered.find("\n", place)
            place = lowered.find(word, end) if end >= 0 else -1


@lru_cache(maxsize=1 << 12)
def _secrets_of_line(line: str) -> tuple[tuple[str, str], ...]:
    """Return what ``detect-secrets`` finds on a line, with the placeholder for each."""
    found = [
        (secret, KEY) for plugin in _TOKENS for secret in plugin.analyze_string(line) if secret
    ]
    found += [(secret, KEY) for secret in _random_strings(line)]
    if _MAY_ASSIGN.search(line):
        found += [
            (secret, PASSWORD if _PASSWORD_WORD.search(line[: line.find(secret)]) else KEY)
            for secret in _KEYWORD.analyze_string(line)  # pyright: ignore[reportUnknownMemberType]
            if _PLAUSIBLE_PASSWORD.fullmatch(secret)
        ]
    return tuple(
        dict.fromkeys(
            (secret, placeholder)
            for secret, placeholder in found
            if not _is_placeholder(secret)
            and not heuristic.is_sequential_string(secret)
            and not heuristic.is_templated_secret(secret)
            and not heuristic.is_prefixed_with_dollar_sign(secret)
        )
    )


def _random_strings(line: str) -> Iterator[str]:
    for plugin in _RANDOM:
        for secret in plugin.analyze_string(line):
            if (
                len(secret) >= _MIN_RANDOM_CHARS
                and plugin.calculate_shannon_entropy(secret) > plugin.entropy_limit
                and not heuristic.is_likely_id_string(secret, line, plugin)
            ):
                yield secret


def _is_placeholder(secret: str) -> bool:
    if len(set(secret)) < _MIN_DISTINCT_CHARS:
        return True
    return len(secret) <= _MAX_PLACEHOLDER_CHARS and _PLACEHOLDER.search(secret) is not None
