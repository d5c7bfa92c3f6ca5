import { Notification } from '@jupyterlab/apputils';
import { Cell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';

import { readText } from './candidates';
import { IConsentDesk } from './consent';
import { findGrading } from './context';
import { LatestOnly, Watch } from './latest';
import { CandidateList, ICandidate, isPassed } from './list';
import { buildRequest, IWish, refuse, replaceRange, viewCell } from './notebook';
import { isSwitchedOff, OFF_HERE } from './offSwitch';
import { ProgressBar } from './progressBar';
import { describeFill } from './provenance';
import { findOpening, findSolutionCells } from './solutions';
import { FillError, FillService, IFillRequest, IFillSettings, ISlot } from './tokens';
import { watchSource } from './watches';

/** More stubs than this in one cell are left to the reader. */
const MAX_STUBS = 10;
// What says something about one cell only; any other error would come again at the next cell.
const CELL_ERRORS = new Set(['no_context', 'cell_magic', 'timeout']);

/** What filling all cells asks of the rest of the extension. */
export interface IAllFillerHost {
  service: FillService;
  consents: IConsentDesk;
  settings: () => IFillSettings;
  /** Why nothing may be filled on this server; or null. */
  offReason: () => string | null;
}

/** What came of the cells so far. */
class Tally {
  numFilled = 0;
  numTried = 0;
  numPassed = 0;

  /** Count a cell, by the last text that went into it. */
  add(candidate: ICandidate | null): void {
    this.numFilled += Number(candidate !== null);
    this.numTried += Number((candidate?.verdict ?? null) !== null);
    this.numPassed += Number(candidate !== null && isPassed(candidate));
  }

  describe(numCells: number): string {
    const filled = `Filled ${this.numFilled} of ${numCells} solution cells.`;
    const tried = `${this.numPassed} of ${this.numTried} tried pass the next cell.`;
    return this.numTried ? `${filled} ${tried}` : filled;
  }
}

/** The command "Fill all empty solution cells": one cell after the other, until stopped. */
export class AllFiller {
  constructor(private readonly _host: IAllFillerHost) {}

  /** Whether cells are being filled now. */
  get isRunning(): boolean {
    return this._controller !== null;
  }

  /** Fill what waits for a solution; resolves at the end, or when stopped. */
  async fill(panel: NotebookPanel): Promise<void> {
    if (this._controller) {
      return;
    }
    const cells = this._findCells(panel);
    if (cells.length === 0) {
      return;
    }
    const controller = new AbortController();
    this._controller = controller;
    const stop = () => {
      controller.abort();
    };
    panel.disposed.connect(stop);
    const bar = new ProgressBar(panel, stop);
    const tally = new Tally();
    try {
      for (const [idx, cell] of cells.entries()) {
        bar.show(`Filling solution cell ${idx + 1} of ${cells.length}…`, idx / cells.length);
        tally.add(await this._fillCell(panel, cell, controller.signal));
        if (controller.signal.aborted) {
          break;
        }
      }
      const stopped = controller.signal.aborted ? 'Stopped. ' : '';
      Notification.info(stopped + tally.describe(cells.length), { autoClose: 8000 });
    } catch (reason) {
      const message = reason instanceof Error ? reason.message : String(reason);
      Notification.error(`${tally.describe(cells.length)} ${message}`, { autoClose: 10_000 });
    } finally {
      panel.disposed.disconnect(stop);
      bar.dispose();
      this._controller = null;
    }
  }

  /** Stop; what is filled stays filled, and one undo in a cell empties it again. */
  stop(): void {
    this._controller?.abort();
  }

  /** The cells that wait for a solution; where there are none, the reader is told why. */
  private _findCells(panel: NotebookPanel): Cell[] {
    const refusal = this._host.offReason() ?? (isSwitchedOff(panel) ? OFF_HERE : null);
    if (refusal) {
      Notification.warning(refusal, { autoClose: 5000 });
      return [];
    }
    const cells = findOpenCells(panel);
    if (cells.length === 0) {
      Notification.info('There is no empty solution cell in this notebook.', { autoClose: 5000 });
    }
    return cells;
  }

  /** Fill the openings of a cell; the candidate that went in last, or null. */
  private async _fillCell(
    panel: NotebookPanel,
    cell: Cell,
    stop: AbortSignal
  ): Promise<ICandidate | null> {
    let last: ICandidate | null = null;
    for (let count = 0; count < MAX_STUBS && !stop.aborted && !cell.isDisposed; count++) {
      const source = viewCell(cell).source;
      const opening = findOpening(source);
      if (!opening || (count > 0 && opening.start === opening.end)) {
        break;
      }
      const slot = { prefix: source.slice(0, opening.start), suffix: source.slice(opening.end) };
      const found = await this._generate(panel, cell, slot, stop);
      const candidate = found?.current;
      if (!found || !candidate) {
        break;
      }
      const text = candidate.text;
      const provenance = found.provenance;
      const record = this._host.settings().recordProvenance
        ? describeFill({ via: 'fill all', accepted: 'whole', text, candidate, provenance })
        : null;
      replaceRange(cell, opening.start, opening.end, text, record);
      last = candidate;
    }
    return last;
  }

  /** The candidates for a cell, best first; null if the cell was edited meanwhile. */
  private async _generate(
    panel: NotebookPanel,
    cell: Cell,
    slot: ISlot,
    stop: AbortSignal
  ): Promise<CandidateList | null> {
    const { signal } = this._latest.start([...watchSource(cell), watchSignal(stop)]);
    const wish = await this._findWish(panel, cell);
    const list = new CandidateList();
    try {
      if (!signal.aborted) {
        await this._collect(
          buildRequest(panel, cell, slot, this._host.settings(), wish),
          list,
          signal
        );
      }
    } catch (reason) {
      if (!(reason instanceof FillError && CELL_ERRORS.has(reason.code))) {
        throw reason;
      }
    } finally {
      list.settle();
    }
    const isStale = signal.aborted;
    this._latest.abort(); // takes the watches off before the cell is changed
    return isStale ? null : list;
  }

  /** Several candidates where they may be tried against the cell below, else the likeliest. */
  private async _findWish(panel: NotebookPanel, cell: Cell): Promise<IWish> {
    const widgets = panel.content.widgets;
    const grading = findGrading(widgets.map(viewCell), widgets.indexOf(cell));
    const consent = grading === null ? null : await this._host.consents.get(panel.context.path);
    return consent?.allowed && consent.available
      ? { n: this._host.settings().numCandidates, isTried: true }
      : { n: 1 };
  }

  private async _collect(
    request: IFillRequest,
    list: CandidateList,
    signal: AbortSignal
  ): Promise<void> {
    for await (const line of this._host.service(request, signal)) {
      readText(line);
      list.add(line);
    }
  }

  private readonly _latest = new LatestOnly();
  private _controller: AbortController | null = null;
}

function watchSignal(signal: AbortSignal): Watch {
  return onEvent => {
    signal.addEventListener('abort', onEvent);
    return () => {
      signal.removeEventListener('abort', onEvent);
    };
  };
}

function findOpenCells(panel: NotebookPanel): Cell[] {
  const widgets = panel.content.widgets;
  const views = widgets.map(cell => ({ ...viewCell(cell), metadata: cell.model.metadata }));
  return findSolutionCells(views)
    .flatMap(idx => widgets[idx] ?? [])
    .filter(cell => refuse(panel, cell) === null);
}
