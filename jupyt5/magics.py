"""``%load_ext jupyt5``: ``%fill`` and ``%%fill`` wherever IPython runs, without JupyterLab.

The model sees what was run before in this shell. Nothing it writes is run: it comes as the next
input, or in the cell's place, for the user to read first.
"""

import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from IPython.core.error import UsageError as ShownError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from traitlets import Int, Unicode

from jupyt5.errors import Jupyt5Error
from jupyt5.notebook import Cell
from jupyt5.providers import (
    DEFAULT_PROVIDER_URI,
    Draft,
    FillRequest,
    Provider,
    Sampling,
    load_provider,
    stream_drafts,
)

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["FillMagics"]

_OPTIONS = ("provider=", "context=", "max-tokens=", "seed=", "show")
_OWN_CELL = re.compile(r"\s*%%fill\b")
_OWN_LINE = re.compile(r"^[ \t]*%fill\b[^\n]*\n?", re.MULTILINE)
_MAX_INPUTS = 200  # looked at; the plan takes the last few
_MAX_HYPOTHESES = 20


@magics_class
class FillMagics(Magics):
    """Fills the next input from what was run before."""

    provider = Unicode(
        DEFAULT_PROVIDER_URI, help="URI of what answers, e.g. jupyt5:nano or openai:MODEL@URL."
    ).tag(config=True)
    num_context_cells = Int(3, min=0, help="Earlier inputs that it reads.").tag(config=True)
    max_tokens = Int(128, min=1, help="Longest hypothesis, in tokens.").tag(config=True)

    def __init__(self, shell: "InteractiveShell") -> None:
        super().__init__(shell)
        self._shell = shell
        self._providers: dict[str, Provider] = {}

    @line_cell_magic
    def fill(self, line: str, cell: str | None = None) -> None:
        """Write code for you, from what was run before in this shell.

        Usage::

            %fill [options] the mean of the column price, by city

            %%fill [options]
            # what the cell shall do, or code to be gone on with
            def mean_price(df):

        The answer comes as the next input (in a notebook: in this cell's place); it is not run.

        Options: ``-n 3`` shows that many and takes the likeliest, ``--provider URI``,
        ``--context C`` inputs that are read, ``--max-tokens N``, ``--seed S``, ``--show`` only
        shows the answer. Defaults for a session: ``%config FillMagics.provider = "URI"``.
        """
        found = self.parse_options(
            line, "n:", *_OPTIONS, strict=False, preserve_non_opts=True, mode="string"
        )
        options, text = cast("tuple[Mapping[str, str], str]", found)
        try:
            drafts = self._draw(options, text.strip(), cell)
            best = _choose(drafts)
        except Jupyt5Error as exc:
            raise ShownError(str(exc)) from None
        if len(drafts) > 1 or "show" in options:
            _show(drafts)
        if "show" not in options:
            self._shell.set_next_input((cell or "") + best.text, replace=True)

    def _draw(self, options: Mapping[str, str], text: str, cell: str | None) -> list[Draft]:
        asked = [Cell(None, "markdown", text)] if text else []
        before = [*self._read_inputs(), *asked]
        n = _count(options, "n", 1, at_most=_MAX_HYPOTHESES)
        request = FillRequest(
            cells=(*before, Cell(None, "code", cell or "")),
            target_idx=len(before),
            prefix=cell or "",
            num_context_cells=_count(options, "context", self.num_context_cells, at_least=0),
            num_following_cells=0,
        )
        sampling = Sampling(
            temperature=0.8 if n > 1 else 0.0,
            max_tokens=_count(options, "max-tokens", self.max_tokens),
        )
        provider = self._find_provider(options.get("provider", self.provider))
        cancel = threading.Event()
        try:
            drafts = stream_drafts(
                provider,
                request,
                n=n,
                sampling=sampling,
                seed=_count(options, "seed", 0, at_least=0),
                cancel=cancel,
            )
            return [draft for draft in drafts if draft.finished]
        finally:
            cancel.set()  # also when the user interrupts: the model stops

    def _read_inputs(self) -> list[Cell]:
        """Return what was run before, this magic's own calls left out."""
        history = self._shell.history_manager
        inputs = history.input_hist_raw[-_MAX_INPUTS:] if history else []
        sources = (_OWN_LINE.sub("", text) for text in inputs if not _OWN_CELL.match(text))
        return [Cell(None, "code", source) for source in sources if source.strip()]

    def _find_provider(self, uri: str) -> Provider:
        if uri not in self._providers:
            self._providers[uri] = load_provider(uri)
        return self._providers[uri]


def _count(
    options: Mapping[str, str],
    name: str,
    default: int,
    *,
    at_least: int = 1,
    at_most: int = 1_000_000,
) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.isdecimal() or not at_least <= int(text) <= at_most:
        dashes = "-" if len(name) == 1 else "--"
        message = f"{dashes}{name} {text} is no whole number from {at_least} to {at_most}."
        raise ShownError(message)
    return int(text)


def _choose(drafts: list[Draft]) -> Draft:
    """Return the likeliest, or the first where likelihoods are unknown."""
    filled = [draft for draft in drafts if draft.text.strip()]
    if not filled:
        message = (
            "The model has nothing to say. Describe in more words what is wanted, or try another "
            "--provider, -n or --seed."
        )
        raise ShownError(message)
    known = [draft for draft in filled if draft.mean_logprob is not None]
    if len(known) < len(filled):
        return filled[0]
    return max(filled, key=lambda draft: draft.mean_logprob or 0.0)


def _show(drafts: list[Draft]) -> None:
    for draft in sorted(drafts, key=lambda draft: draft.hypothesis_idx):
        if len(drafts) > 1:
            score = "" if draft.mean_logprob is None else f"  ({draft.mean_logprob:.2f} nats/token)"
            print(f"# --- {draft.hypothesis_idx + 1} of {len(drafts)}{score}")  # noqa: T201
        print(draft.text)  # noqa: T201
