"""``%load_ext jupyt5``: ``%fill`` and ``%%fill`` wherever IPython runs, without JupyterLab.

The model sees what was run before in this shell. Nothing it writes is run here: it comes as the
next input, or in the cell's place, for the user to read first. With ``--try`` it runs in a sandbox.
"""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenInfo
from typing import TYPE_CHECKING, cast

from IPython.core.error import UsageError as ShownError
from IPython.core.inputtransformer2 import make_tokens_by_line
from IPython.core.magic import Magics, line_cell_magic, magics_class
from traitlets import Int, Unicode

from jupyt5.errors import ExecutionError, Jupyt5Error
from jupyt5.execution.jobs import Limits
from jupyt5.execution.trials import Trial, Tried, rank, try_fresh
from jupyt5.execution.verdicts import VerdictKind
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
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

__all__ = ["FillMagics"]

_OPTIONS = ("provider=", "context=", "max-tokens=", "seed=", "show", "try")
_OWN_CELL = re.compile(r"\s*%%fill\b")
_OWN_LINE = re.compile(r"[ \t]*%(?:fill|load_ext[ \t]+jupyt5)\b")
# Where editors and jupytext see the next cell of a script.
_NEXT_CELL = re.compile(r"\n*^# ?%%[^\n]*(?:\n|\Z)", re.MULTILINE)
_LIMITS = Limits(timeout_s=5.0, context_timeout_s=60.0)
_MAX_INPUTS = 200  # looked at; the plan takes the last few
_MAX_HYPOTHESES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is wanted: words, the beginning of a cell, and the cell below it, as written."""

    words: str
    prefix: str
    below: str

    @property
    def tests(self) -> str:
        return _NEXT_CELL.sub("", self.below, count=1)


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
        self._failed: set[int] = set()
        shell.events.register("post_run_cell", self._note_failure)

    @line_cell_magic
    def fill(self, line: str, cell: str | None = None) -> None:
        """Write code for you, from what was run before in this shell.

        Usage::

            %fill [options] the mean of the column price, by city

            %%fill [options]
            # what the cell shall do, or code to be gone on with
            def mean_price(df):

        The answer comes as the next input (in a notebook: in this cell's place); it is not run.

        The answer goes before a line ``# %%``; what stands below it is the next cell, which the
        model sees, too. With ``--try``, answers are run against that one in a sandbox, after the
        inputs so far, and one that passes is taken::

            %%fill -n 5 --try
            def mean(values):
            # %%
            assert mean([1, 2, 3]) == 2

        Options: ``-n 3`` shows that many and takes the likeliest, ``--try``, ``--provider URI``,
        ``--context C`` inputs that are read, ``--max-tokens N``, ``--seed S``, ``--show`` only
        shows the answer. Defaults for a session: ``%config FillMagics.provider = "URI"``.
        """
        found = self.parse_options(
            line, "n:", *_OPTIONS, strict=False, preserve_non_opts=True, mode="string"
        )
        options, text = cast("tuple[Mapping[str, str], str]", found)
        self._answer(options, _read_cell(text.strip(), cell or ""))

    def _answer(self, options: Mapping[str, str], asked: _Asked) -> None:
        if "try" in options and not asked.tests.strip():
            message = (
                "--try has nothing to try against. Use %%fill, and write the tests below a line "
                "`# %%` at its end."
            )
            raise ShownError(message)
        try:
            drafts = self._draw(options, asked)
            tried = self._try(drafts, asked) if "try" in options else {}
            best = _choose(drafts, tried)
        except Jupyt5Error as exc:
            raise ShownError(str(exc)) from None
        if len(drafts) > 1 or "show" in options or tried:
            _show(drafts, tried)
        if "show" not in options:
            self._shell.set_next_input(asked.prefix + best.text + asked.below, replace=True)

    def _draw(self, options: Mapping[str, str], asked: _Asked) -> list[Draft]:
        words = [Cell(None, "markdown", asked.words)] if asked.words else []
        before = [*self._read_inputs(), *words]
        after = [Cell(None, "code", asked.tests)] if asked.tests.strip() else []
        n = _count(options, "n", 1, at_most=_MAX_HYPOTHESES)
        request = FillRequest(
            cells=(*before, Cell(None, "code", asked.prefix), *after),
            target_idx=len(before),
            prefix=asked.prefix,
            num_context_cells=_count(options, "context", self.num_context_cells, at_least=0),
            num_following_cells=len(after),
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

    def _try(self, drafts: list[Draft], asked: _Asked) -> dict[int, Tried]:
        """Run the inputs of the session once more, in a sandbox, then each answer with the tests.

        Returns:
            What was found, by hypothesis; nothing, and a note, where there is no sandbox.
        """
        inputs = [cell.source for cell in self._read_inputs(that_worked=True)]
        num_inputs = len(inputs)
        trial = Trial(
            cells=tuple(enumerate((*inputs, asked.prefix, asked.tests))),
            target_idx=num_inputs,
            grading_idx=num_inputs + 1,
        )
        texts = {
            str(draft.hypothesis_idx): asked.prefix + draft.text
            for draft in drafts
            if draft.text.strip()
        }
        try:
            found = list(try_fresh(trial, texts, Path.cwd(), limits=_LIMITS))
        except ExecutionError as exc:
            print(f"Not tried: {exc}")  # noqa: T201
            return {}
        return {int(one.key): one for one in found}

    def _read_inputs(self, *, that_worked: bool = False) -> list[Cell]:
        """Return what was run before, this magic's own calls left out.

        Args:
            that_worked: All of it, but for what raised; else the last of it.
        """
        history = self._shell.history_manager
        inputs = list(enumerate(history.input_hist_raw)) if history else []
        if that_worked:
            # IPython 9 also knows what failed before this extension was loaded.
            known = cast("Mapping[int, object]", getattr(history, "exceptions", {}))
            failed = self._failed | known.keys()
            inputs = [(count, text) for count, text in inputs if count not in failed]
        else:
            inputs = inputs[-_MAX_INPUTS:]
        sources = (_strip_own_lines(text) for _, text in inputs if not _OWN_CELL.match(text))
        return [Cell(None, "code", source) for source in sources if source.strip()]

    def _note_failure(self, result: "ExecutionResult | None") -> None:
        if result is None or result.execution_count is None:
            return
        if result.success:
            self._failed.discard(result.execution_count)  # %reset counts from 1 again
        else:
            self._failed.add(result.execution_count)

    def _find_provider(self, uri: str) -> Provider:
        if uri not in self._providers:
            self._providers[uri] = load_provider(uri)
        return self._providers[uri]


def _strip_own_lines(text: str) -> str:
    """Remove the lines that call this extension; what only looks so, in a string, stays."""
    lines = text.splitlines(keepends=True)
    while (idx := _find_own_line(lines)) is not None:
        del lines[idx]
    return "".join(lines)


def _find_own_line(lines: list[str]) -> int | None:
    if not any(map(_OWN_LINE.match, lines)):
        return None
    statements = cast("list[list[TokenInfo]]", make_tokens_by_line(lines))
    for tokens in statements:
        idx = next((token.start[0] - 1 for token in tokens if token.string.strip()), None)
        if idx is not None and _OWN_LINE.match(lines[idx]):
            return idx
    return None


def _read_cell(words: str, cell: str) -> _Asked:
    mark = _NEXT_CELL.search(cell)
    if mark is None:
        return _Asked(words=words, prefix=cell, below="")
    below = cell[mark.start() :]
    return _Asked(words=words, prefix=cell[: mark.start()], below="\n" + below.lstrip("\n"))


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


def _choose(drafts: list[Draft], tried: Mapping[int, Tried]) -> Draft:
    """Return one that passed, and the likeliest; the first where likelihoods are unknown."""
    filled = {draft.hypothesis_idx: draft for draft in drafts if draft.text.strip()}
    if not filled:
        message = (
            "The model has nothing to say. Describe in more words what is wanted, or try another "
            "--provider, -n or --seed."
        )
        raise ShownError(message)
    logprobs = {idx: filled[idx].mean_logprob for idx in sorted(filled)}
    if None in logprobs.values():
        logprobs = dict.fromkeys(logprobs)
    best_idx, *_ = rank(logprobs, {idx: one.verdict for idx, one in tried.items()})
    return filled[best_idx]


def _show(drafts: list[Draft], tried: Mapping[int, Tried]) -> None:
    for draft in sorted(drafts, key=lambda draft: draft.hypothesis_idx):
        score = "" if draft.mean_logprob is None else f"  ({draft.mean_logprob:.2f} nats/token)"
        one = tried.get(draft.hypothesis_idx)
        verdict = "  " + "; ".join([one.verdict.kind.value, *one.verdict.flags]) if one else ""
        if len(drafts) > 1 or one:
            print(f"# --- {draft.hypothesis_idx + 1} of {len(drafts)}{score}{verdict}")  # noqa: T201
        print(draft.text)  # noqa: T201
    verdicts = [one.verdict for one in tried.values()]
    if verdicts and all(verdict.kind is VerdictKind.CONTEXT for verdict in verdicts):
        print(f"# Nothing was judged: {verdicts[0].message}")  # noqa: T201
    elif verdicts and not any(verdict.passed for verdict in verdicts):
        print(f"# None of the {len(verdicts)} passes the tests.")  # noqa: T201
