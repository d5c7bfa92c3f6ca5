"""`jupyt5 fill`: hypotheses for one cell of a notebook file.

`--json` writes one object:

    {"notebook": path, "cell": index from 0, "kind": "code" | "markdown", "provider": URI,
     "seed": int, "sampling": {"temperature", "top_p", "top_k", "max_tokens"},
     "num_context_cells": int, "num_following_cells": int,
     "hypotheses": [{"hypothesis_idx": int, "text": str, "raw": str,
                     "mean_logprob": float | null}],
     "best_idx": index of the best hypothesis, "written": bool}

`text` is cleaned and follows what the cell holds already; `raw` is the model's own. With `--try`
each hypothesis also has `verdict` (null: not tried), `flags`, `message` and `wall_s`.
"""

import argparse
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyt5.cli.command import Command
from jupyt5.cli.output import LiveText, note, write_json, write_text
from jupyt5.cli.trying import find_grading_idx, try_drafts, verdict_to_json
from jupyt5.errors import NotebookError, ProviderError, UsageError

if TYPE_CHECKING:
    from jupyt5.execution.trials import Tried
    from jupyt5.notebook import Cell, Notebook
    from jupyt5.providers import Draft, FillRequest, Provider, Sampling

__all__ = ["COMMAND"]

_EXAMPLES = """\
examples:
  jupyt5 fill analysis.ipynb --cell 4             one suggestion, on stdout
  jupyt5 fill analysis.ipynb --cell 4 -n 5        five to choose from
  jupyt5 fill analysis.ipynb --cell 4 -n 5 --try  tried against the cell below, the best first
  jupyt5 fill analysis.ipynb --cell 4 --write     write the suggestion into the notebook
  jupyt5 fill analysis.ipynb --cell 4 --provider jupyt5:/models/mine --json
  jupyt5 fill analysis.ipynb --cell 4 --provider gguf:/models/smollm2.gguf

Cells are counted from 0, all kinds together, in the order of the notebook. What the cell holds
already (a comment, a `def` line) is kept, and the suggestion goes on from there.
--try runs the code cells above, in a sandbox without a network: nothing that they do lasts.
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("notebook", type=Path, metavar="NB.ipynb", help="the notebook")
    add("--cell", type=int, required=True, metavar="N", help="the cell to fill, counted from 0")
    add("--provider", metavar="URI", help="what answers (default: jupyt5:nano)")
    add("-n", type=int, default=1, help="hypotheses to draw (default: 1)")
    add("--context", type=int, default=3, metavar="C", help="cells before it to read (default: 3)")
    add("--following", type=int, default=1, metavar="F", help="cells after it (default: 1)")
    add("--temperature", type=float, help="0 is greedy (default: 0 if n is 1, else 0.8)")
    add("--top-p", type=float, default=0.95, help="nucleus mass in (0, 1] (default: 0.95)")
    add("--top-k", type=int, default=50, help="likeliest tokens kept, 0 is all (default: 50)")
    add("--max-tokens", type=int, default=128, help="longest hypothesis, in tokens (default: 128)")
    add("--seed", type=int, default=0, help="same seed, same hypotheses (default: 0)")
    add("--try", dest="tries", action="store_true", help="try them against the code cell below")
    add("--write", action="store_true", help="write the best hypothesis into the notebook")
    add("--json", action="store_true", help="write one JSON object instead of text")


@dataclass(frozen=True, slots=True)
class _Job:
    provider: "Provider"
    request: "FillRequest"
    sampling: "Sampling"
    n: int
    seed: int


def _fill(options: argparse.Namespace) -> int:
    from jupyt5.notebook import read_notebook
    from jupyt5.providers import DEFAULT_PROVIDER_URI, FillRequest, load_provider

    if options.n < 1:
        message = f"-n {options.n} is no number of hypotheses. Use 1 or more."
        raise UsageError(message)
    sampling = _read_sampling(options)
    notebook = read_notebook(options.notebook)
    target = _find_target(notebook, options)
    request = FillRequest(
        cells=notebook.cells,
        target_idx=options.cell,
        prefix=target.source,
        num_context_cells=options.context,
        num_following_cells=options.following,
    )
    request.require_context()
    if options.tries:
        find_grading_idx(notebook, options)
    provider = load_provider(options.provider or DEFAULT_PROVIDER_URI)
    job = _Job(provider, request, sampling, options.n, options.seed)
    is_live = options.n == 1 and not options.json and sys.stdout.isatty()
    drafts = _draw_live(job) if is_live else _draw(job)
    tried = try_drafts(notebook, drafts, options) if options.tries else {}
    best = _choose(drafts, tried, options)
    if options.write:
        _write(options, target, best)
    if options.json:
        write_json(_describe(options, job, drafts, tried, best))
    elif not is_live:
        _show(drafts, tried)
    elif tried:
        note(f"It was tried: {_say(tried, drafts[0])}.")
    if options.write:
        which = f" with hypothesis {best.hypothesis_idx + 1}" if options.n > 1 else ""
        note(f"Filled cell {options.cell} of {options.notebook}{which}.")
    return 0


def _read_sampling(options: argparse.Namespace) -> "Sampling":
    from jupyt5.providers import Sampling

    temperature: float | None = options.temperature
    if temperature is None:
        temperature = 0.0 if options.n == 1 else 0.8
    if temperature == 0 and options.n > 1:
        message = "Greedy decoding gives one hypothesis. Use -n 1, or a --temperature above 0."
        raise UsageError(message)
    return Sampling(
        temperature=temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        max_tokens=options.max_tokens,
    )


def _find_target(notebook: "Notebook", options: argparse.Namespace) -> "Cell":
    """Return the cell to fill, or say why it cannot be filled."""
    from jupyt5.hypotheses import is_foreign

    where, cell_idx = str(options.notebook), int(options.cell)
    num_cells = len(notebook.cells)
    if not 0 <= cell_idx < num_cells:
        known = f"it has {num_cells}, counted from 0" if num_cells else "it has none"
        message = f"{where} has no cell {cell_idx}: {known}. Give another --cell."
        raise UsageError(message)
    target = notebook.cells[cell_idx]
    if target.kind == "raw":
        message = (
            f"Cell {cell_idx} of {where} is a raw cell. Only code and Markdown cells can be "
            "filled: change its type in Jupyter or give another --cell."
        )
        raise UsageError(message)
    language = notebook.language or "python"
    is_python = language.startswith(("python", "ipython"))
    if target.kind == "code" and (not is_python or is_foreign(target.source)):
        what = target.source.split()[0] if is_python else language
        message = (
            f"Cell {cell_idx} of {where} is not Python ({what}), and JuPyT5 writes nothing else. "
            "Give another --cell."
        )
        raise UsageError(message)
    if options.write and notebook.nbformat < 4:
        message = (
            f"{where} has nbformat {notebook.nbformat} and cannot be written to. Upgrade it "
            f"first: jupyter nbconvert --to notebook --inplace {where}"
        )
        raise NotebookError(message)
    return target


@contextmanager
def _stream(job: _Job) -> "Generator[Iterator[Draft]]":
    """Open the stream of drafts; leaving it, also by Ctrl-C, stops the model."""
    from jupyt5.providers import stream_drafts

    cancel = threading.Event()
    try:
        yield stream_drafts(
            job.provider, job.request, n=job.n, sampling=job.sampling, seed=job.seed, cancel=cancel
        )
    finally:
        cancel.set()


def _draw(job: _Job) -> "list[Draft]":
    with _stream(job) as drafts:
        finished = [draft for draft in drafts if draft.finished]
    return sorted(finished, key=lambda draft: draft.hypothesis_idx)


def _draw_live(job: _Job) -> "list[Draft]":
    live = LiveText()
    finished: list[Draft] = []
    with _stream(job) as drafts:
        for draft in drafts:
            live.update(draft.text)
            if draft.finished:
                finished.append(draft)
    live.close()
    return finished


def _choose(
    drafts: "list[Draft]", tried: "Mapping[int, Tried]", options: argparse.Namespace
) -> "Draft":
    """Return one that passed, and the likeliest; the first where likelihoods are unknown."""
    filled = [draft for draft in drafts if draft.text.strip()]
    if not filled:
        message = (
            f"The model has nothing to say about cell {options.cell} of {options.notebook}. "
            "Describe it in a Markdown cell above, or try another --provider, -n or --seed."
        )
        raise ProviderError(message)
    passed = [d for d in filled if (one := tried.get(d.hypothesis_idx)) and one.verdict.passed]
    # A pass that looks suspicious is taken only where there is no other.
    clean = [d for d in passed if not tried[d.hypothesis_idx].is_suspect]
    choice = clean or passed or filled
    if any(draft.mean_logprob is None for draft in choice):
        return choice[0]
    return max(choice, key=lambda draft: draft.mean_logprob or 0.0)


def _write(options: argparse.Namespace, target: "Cell", best: "Draft") -> None:
    from jupyt5.notebook import read_notebook, write_cell_source

    cell_idx: int = options.cell
    now = read_notebook(options.notebook).cells
    if cell_idx >= len(now) or now[cell_idx].source != target.source:
        message = (
            f"{options.notebook} was changed while the model was at work, and is left as it is. "
            "Run the command again."
        )
        raise NotebookError(message)
    write_cell_source(options.notebook, cell_idx, target.source + best.text)


def _show(drafts: "list[Draft]", tried: "Mapping[int, Tried]") -> None:
    for draft in drafts:
        if len(drafts) > 1:
            score = "" if draft.mean_logprob is None else f"  ({draft.mean_logprob:.2f} nats/token)"
            verdict = f"  {_say(tried, draft)}" if tried else ""
            write_text(f"--- {draft.hypothesis_idx + 1} of {len(drafts)}{score}{verdict}")
        elif tried:
            note(f"It was tried: {_say(tried, draft)}.")
        write_text(draft.text)


def _say(tried: "Mapping[int, Tried]", draft: "Draft") -> str:
    one = tried.get(draft.hypothesis_idx)
    if one is None:
        return "not tried"
    return "; ".join([one.verdict.kind.value, *one.verdict.flags])


def _describe(
    options: argparse.Namespace,
    job: _Job,
    drafts: "list[Draft]",
    tried: "Mapping[int, Tried]",
    best: "Draft",
) -> dict[str, object]:
    return {
        "notebook": str(options.notebook),
        "cell": options.cell,
        "kind": job.request.kind,
        "provider": job.provider.uri,
        "seed": job.seed,
        "sampling": asdict(job.sampling),
        "num_context_cells": job.request.num_context_cells,
        "num_following_cells": job.request.num_following_cells,
        "hypotheses": [
            {
                "hypothesis_idx": draft.hypothesis_idx,
                "text": draft.text,
                "raw": draft.raw,
                "mean_logprob": draft.mean_logprob,
                **(verdict_to_json(tried, draft.hypothesis_idx) if options.tries else {}),
            }
            for draft in drafts
        ],
        "best_idx": best.hypothesis_idx,
        "written": bool(options.write),
    }


COMMAND = Command(
    name="fill",
    summary="fill one cell of a notebook file",
    description="Suggest what goes into one cell, from the cells around it.",
    epilog=_EXAMPLES,
    configure=_configure,
    body=_fill,
)
