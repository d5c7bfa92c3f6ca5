"""What goes over the wire: a fill request in, NDJSON lines out.

Nothing here knows of tornado, so that every rule about a request is a plain function.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from jupyt5.notebook import Cell, CellKind
from jupyt5.providers import FillRequest, ProviderInfo, Sampling, hide_secrets
from jupyt5.server.context.cells import add_facts
from jupyt5.server.fields import (
    RequestError,
    read_count,
    read_flag,
    read_object,
    read_text,
    whole_text,
)

__all__ = [
    "FillJob",
    "Limits",
    "TrialRequest",
    "choose_provider",
    "error_line",
    "find_request_id",
    "line",
    "parse_fill",
    "provider_to_json",
]

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_REQUEST_ID_IN_BODY = re.compile(rb'"request_id"\s*:\s*"([A-Za-z0-9_.:-]{1,128})"')
_PYTHON = re.compile(r"i?python[\d.]*", re.IGNORECASE)
_MAX_SEED = 2**31 - 1
_KINDS: tuple[CellKind, ...] = ("code", "markdown", "raw")
# Cell magics whose body is still Python of this kernel.
_PYTHON_CELL_MAGICS = frozenset({"capture", "prun", "time", "timeit"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Defaults and upper bounds that the administrator set."""

    provider: str
    allowed_providers: tuple[str, ...]
    num_context_cells: int
    num_following_cells: int
    max_tokens: int
    max_tokens_limit: int
    max_candidates: int
    temperature: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """A wish that candidates be tried: against which cell, in which kernel, in whose name.

    Attributes:
        grading_idx: A code cell below the target.
        notebook_path: As the contents manager knows it.
        kernel_id: The notebook's kernel; None where none runs.
    """

    grading_idx: int
    notebook_path: str
    kernel_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FillJob:
    """A request as checked: ready to be handed to a provider."""

    request_id: str
    provider: str
    request: FillRequest
    num_candidates: int
    sampling: Sampling
    user: str = ""  # whose turn in the queue it takes
    trial: TrialRequest | None = None
    wants_facts: bool = False  # about the variables of the kernel
    kernel_id: str | None = None
    facts: str = ""  # source of a cell that tells of them
    wants_provenance: bool = False  # told at the end; it takes a hash of the weights
    seed: int = 0  # asking twice gives the same answers, unless the request has another seed

    @property
    def asked(self) -> FillRequest:
        """What the provider gets: the request, and the facts where there are any."""
        return add_facts(self.request, self.facts) if self.facts else self.request


def line(kind: str, request_id: str | None, **fields: object) -> bytes:
    """Render one line of the reply; ``type`` tells what it is."""
    record = {"type": kind, "request_id": request_id, **fields}
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def error_line(request_id: str | None, code: str, message: str) -> bytes:
    """Render the line that ends a reply which failed."""
    return line("error", request_id, code=code, message=message)


def provider_to_json(info: ProviderInfo) -> dict[str, object]:
    """Describe a provider as ``GET providers`` lists it."""
    return {"uri": info.uri, "available": info.available, "detail": info.detail}


def find_request_id(body: bytes) -> str | None:
    """Look for the id in a body that is not going to be parsed, e.g. because of its size."""
    found = _REQUEST_ID_IN_BODY.search(body[:65_536]) or _REQUEST_ID_IN_BODY.search(body[-65_536:])
    return found[1].decode() if found else None


def parse_fill(body: bytes, limits: Limits, *, user: str = "") -> FillJob:
    """Check a fill request.

    Args:
        body: JSON, as it came.
        limits: What it is checked against.
        user: Who asks.

    Raises:
        RequestError: If it is malformed, or asks for what this service does not do.
    """
    fields = read_object(body)
    request_id = _parse_id(fields)
    cells, target_idx = _parse_cells(fields)
    prefix, suffix = _parse_slot(fields, cells[target_idx])
    _refuse_other_languages(cells[target_idx], prefix + suffix, read_text(fields, "language", ""))
    num_candidates, sampling = _parse_sampling(fields, limits)
    num_following_cells = read_count(fields, "num_following_cells", limits.num_following_cells)
    return FillJob(
        request_id=request_id,
        provider=choose_provider(read_text(fields, "provider", ""), limits),
        request=FillRequest(
            cells=cells,
            target_idx=target_idx,
            prefix=prefix,
            suffix=suffix,
            num_context_cells=read_count(fields, "num_context_cells", limits.num_context_cells),
            num_following_cells=num_following_cells,
        ),
        num_candidates=num_candidates,
        sampling=sampling,
        user=user,
        wants_facts=fields.get("kernel_facts") is True,
        kernel_id=read_text(fields, "kernel_id", "") or None,
        trial=_parse_trial(fields, cells, target_idx),
        wants_provenance=read_flag(fields, "provenance"),
        seed=read_count(fields, "seed", 0, at_most=_MAX_SEED),
    )


def _parse_id(fields: Mapping[str, object]) -> str:
    request_id = read_text(fields, "request_id")
    if not _REQUEST_ID.fullmatch(request_id):
        message = "request_id must be 1 to 128 letters, digits or any of _ . : -"
        raise RequestError("bad_request", message)
    return request_id


def _parse_cells(fields: Mapping[str, object]) -> tuple[tuple[Cell, ...], int]:
    raw_cells = fields.get("cells")
    if not isinstance(raw_cells, list) or not raw_cells:
        message = "cells must be a list of at least one {id, kind, source}."
        raise RequestError("bad_request", message)
    cells = tuple(_parse_cell(raw, idx) for idx, raw in enumerate(cast("list[object]", raw_cells)))
    target_idx = fields.get("target_idx")
    if type(target_idx) is not int or not 0 <= target_idx < len(cells):
        message = f"target_idx must be a whole number from 0 to {len(cells) - 1}."
        raise RequestError("bad_request", message)
    return cells, target_idx


def _parse_trial(
    fields: Mapping[str, object], cells: tuple[Cell, ...], target_idx: int
) -> TrialRequest | None:
    """Return what ``try`` asks for; a cell that is no code cannot be tried."""
    wish = fields.get("try")
    if wish is None or cells[target_idx].kind != "code":
        return None
    idx = cast("dict[str, object]", wish).get("grading_idx") if isinstance(wish, dict) else None
    if type(idx) is not int or not target_idx < idx < len(cells) or cells[idx].kind != "code":
        message = "try must be {grading_idx}, the index of a code cell below the target."
        raise RequestError("bad_request", message)
    path = read_text(fields, "notebook_path")
    return TrialRequest(
        grading_idx=idx, notebook_path=path, kernel_id=read_text(fields, "kernel_id", "") or None
    )


def _parse_cell(raw: object, idx: int) -> Cell:
    fields = cast("dict[str, object]", raw) if isinstance(raw, dict) else {}
    kind, source, cell_id = fields.get("kind"), fields.get("source"), fields.get("id")
    if kind not in _KINDS or not isinstance(source, str):
        message = f"cells[{idx}] must have a kind (code, markdown or raw) and a source (text)."
        raise RequestError("bad_request", message)
    return Cell(cell_id if isinstance(cell_id, str) else None, kind, whole_text(source))


def _parse_slot(fields: Mapping[str, object], target: Cell) -> tuple[str, str]:
    if fields.get("prefix") is None and fields.get("suffix") is None:
        return target.source, ""
    return whole_text(read_text(fields, "prefix", "")), whole_text(read_text(fields, "suffix", ""))


def _parse_sampling(fields: Mapping[str, object], limits: Limits) -> tuple[int, Sampling]:
    num_candidates = read_count(fields, "n", 1, at_least=1, at_most=limits.max_candidates)
    max_tokens = read_count(
        fields, "max_tokens", limits.max_tokens, at_least=1, at_most=limits.max_tokens_limit
    )
    # One candidate is the likeliest text; several are drawn, so that they differ.
    temperature = limits.temperature if num_candidates > 1 else 0.0
    return num_candidates, Sampling(temperature=temperature, max_tokens=max_tokens)


def choose_provider(wish: str, limits: Limits) -> str:
    """Return the provider that is asked for, the server's own where none is.

    Raises:
        RequestError: If it is not allowed here.
    """
    uri = wish or limits.provider
    allowed = (limits.provider, *limits.allowed_providers)
    if limits.allowed_providers and uri not in allowed:
        names = ", ".join(map(hide_secrets, allowed))
        message = (
            f"The provider {hide_secrets(uri)} is not allowed on this server. Allowed: {names}."
        )
        raise RequestError("provider_denied", message)
    return uri


def _refuse_other_languages(target: Cell, text: str, language: str) -> None:
    if target.kind == "raw":
        message = "A raw cell cannot be filled. Change it to a code or Markdown cell first."
        raise RequestError("target_kind", message)
    if target.kind == "markdown":
        return
    if language and not _PYTHON.fullmatch(language):
        message = f"This notebook is in {language}; JuPyT5 fills code cells in Python only."
        raise RequestError("language", message)
    first_line = text.lstrip().partition("\n")[0]
    magic = first_line[2:].split(maxsplit=1)[:1] if first_line.startswith("%%") else []
    if magic and magic[0] not in _PYTHON_CELL_MAGICS:
        message = f"The cell magic %%{magic[0]} makes this cell something else than Python."
        raise RequestError("cell_magic", message)
