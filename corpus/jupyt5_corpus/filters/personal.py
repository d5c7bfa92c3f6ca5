"""E-mail and IP addresses in a notebook's text.

Candidates are looked for around their rarest character, which makes the search cost next to
nothing where there are none, and judged by what maintains the rules: the public suffix list (is
this an internet domain?) and the standard library's ``ipaddress`` (is this a public address?).

Left as they are: addresses for documentation (``example.com`` and its kin, ``you@...``, domains of
one letter, ``mycompany.com``, ``your-domain.org``), private and local networks, machines'
identities (``git@``, ``noreply@``, service accounts), users in URLs, and numbers with four parts
that are versions or sections rather than addresses. ``jane.doe@company.org`` goes: the domain has
an owner, and taking it for real costs one address in the 15,635 notebooks of the shared corpus.
"""

import re
from collections.abc import Iterator
from functools import cache
from ipaddress import IPv4Address, IPv6Address

from tldextract import TLDExtract

from jupyt5_corpus.filters.spans import EMAIL, IP_ADDRESS, Span

__all__ = ["find_addresses"]

# RFC 5321: 64 characters before the @, 255 after it.
_LOCAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}\Z")
_MAX_LOCAL_CHARS = 64
_DOMAIN = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}")
# RFC 2606 and 6761.
_RESERVED_DOMAIN = re.compile(
    r"(?:^|\.)(?:example(?:\.(?:com|net|org|edu))?|test|invalid|local|localhost)$"
    r"|(?:^|\.)gserviceaccount\.com$"
)
_MACHINES = frozenset({"donotreply", "git", "hg", "no-reply", "noreply", "svn"})
# Of no one in particular.
_SAMPLES = frozenset(
    {"example", "me", "myemail", "name", "someone", "user", "username", "you", "your_email"}
    | {"your-email", "your.email", "youremail", "yourname"}
)
_SAMPLE_DOMAIN = re.compile(
    r"(?:[a-wyz]|(?:my|your)-?(?:company|domain))\.(?:com|org|net)"  # x.com exists
)
_ESCAPES = frozenset("nrt")
_URL_USER = re.compile(r"(?:/|://[^\s/]*)\Z")
_NO_END = frozenset("([=")
_NO_ENDS = frozenset({":/", ":~"})

_IPV4_MIDDLE = re.compile(r"\.[0-9]{1,3}\.[0-9]{1,3}\.")
_IPV4_FIRST = re.compile(r"[0-9]{1,3}\Z")
_IPV4_LAST = re.compile(r"[0-9]{1,3}(?![\w-]|\.[0-9A-Za-z])")
_LARGE = 32
"""Of a public address at least two numbers are this large, or it is taken for a version or a
section (4.5.2.52, 3.11.4.1). Of random addresses 0.7 % are smaller, and well-known resolvers."""

_COMPARISONS = frozenset({"==", "~=", ">=", "<=", "!="})

_IPV6_MIDDLE = re.compile(r":[0-9A-Fa-f]{1,4}:[0-9A-Fa-f:]{3,}")
_IPV6_FIRST = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{1,4}\Z")
_MIN_IPV6_GROUPS = 4


def find_addresses(text: str) -> Iterator[Span]:
    """Yield the places of e-mail and public IP addresses."""
    yield from _find_emails(text)
    yield from _find_ipv4(text)
    yield from _find_ipv6(text)


def _find_emails(text: str) -> Iterator[Span]:
    place = text.find("@")
    while place >= 0:
        local = _LOCAL.search(text, max(0, place - _MAX_LOCAL_CHARS), place)
        domain = _DOMAIN.match(text, place + 1) if local else None
        if local and domain:
            start, end = local.start(), domain.end()
            # "\nann@..." inside a string literal: the n belongs to the backslash.
            if text[start - 1 : start] == "\\" and text[start] in _ESCAPES:
                start += 1
            if start < place and _is_email(text, start, place, end):
                yield Span(start, end, EMAIL)
        place = text.find("@", place + 1)


def _is_email(text: str, start: int, place: int, end: int) -> bool:
    # x@w.dot(y) is a product of matrices, ann@host.org:~/file a place on a machine.
    if text[end : end + 1] in _NO_END or text[end : end + 2] in _NO_ENDS:
        return False
    if _URL_USER.search(text, max(0, start - _MAX_LOCAL_CHARS), start):
        return False
    local, domain = text[start:place].lower(), text[place + 1 : end].lower()
    if local in _MACHINES or _RESERVED_DOMAIN.search(domain):
        return False
    if local in _SAMPLES or _SAMPLE_DOMAIN.fullmatch(domain):
        return False
    parts = _suffixes()(domain)
    return bool(parts.suffix and parts.domain)


@cache
def _suffixes() -> TLDExtract:
    """Return the public suffix list that the package ships; nothing is fetched or stored."""
    return TLDExtract(suffix_list_urls=(), cache_dir=None)


def _find_ipv4(text: str) -> Iterator[Span]:
    for middle in _IPV4_MIDDLE.finditer(text):
        first = _IPV4_FIRST.search(text, max(0, middle.start() - 3), middle.start())
        last = _IPV4_LAST.match(text, middle.end())
        if not first or not last or not _may_precede(text, first.start()):
            continue
        start, end = first.start(), last.end()
        numbers = [int(number) for number in text[start:end].split(".")]
        if max(numbers) > 255 or sum(number >= _LARGE for number in numbers) < 2:
            continue
        if IPv4Address(bytes(numbers)).is_global:
            yield Span(start, end, IP_ADDRESS)


def _may_precede(text: str, start: int) -> bool:
    """Tell whether an address may start here: after ``v``, ``==`` or ``Chrome/`` stand versions."""
    before = text[max(0, start - 2) : start]
    if before in _COMPARISONS:
        return False
    if before.endswith("/"):
        return before == "//"
    return not before or not (before[-1].isalnum() or before[-1] in "._-")


def _find_ipv6(text: str) -> Iterator[Span]:
    for middle in _IPV6_MIDDLE.finditer(text):
        first = _IPV6_FIRST.search(text, max(0, middle.start() - 4), middle.start())
        if not first or text[middle.end() : middle.end() + 1].isalnum():
            continue
        start, end = first.start(), middle.end()
        written = text[start:end]
        if sum(map(bool, written.split(":"))) < _MIN_IPV6_GROUPS:
            continue
        try:
            is_public = IPv6Address(written).is_global
        except ValueError:
            continue
        if is_public:
            yield Span(start, end, IP_ADDRESS)
