import { Notification } from '@jupyterlab/apputils';
import { Cell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';

import { readText } from './candidates';
import { LatestOnly } from './latest';
import { CandidateList } from './list';
import { buildRequest, refuse, replaceRange, viewCell } from './notebook';
import { ProgressBar } from './progressBar';
import { findOpening, findSolutionCells } from './solutions';
import { FillError, FillService, IFillSettings } from './tokens';
import { watchSource } from './watches';

/** More stubs than this in one cell are left to the reader. */
const MAX_STUBS = 10;
// What says something about one cell only; any other error would come again at the next cell.
const CELL_ERRORS = new Set(['no_context', 'cell_magic', 'timeout']);

/** The command "Fill all empty solution cells": one cell after the other, until stopped. */
export class AllFiller {
  constructor(
    private readonly _service: FillService,
    private readonly _settings: () => IFillSettings
  ) {}

  /** Whether cells are being filled now. */
  get isRunning(): boolean {
    return this._controller !== null;
  }

  /** Fill what waits for a solution; resolves at the end, or when stopped. */
  async fill(panel: NotebookPanel): Promise<void> {
    if (this._controller) {
      return;
    }
    const cells = findOpenCells(panel);
    if (cells.length === 0) {
      Notification.info('There is no empty solution cell in this notebook.', { autoClose: 5000 });
      return;
    }
    const controller = new AbortController();
    this._controller = controller;
    const stop = () => {
      controller.abort();
    };
    panel.disposed.connect(stop);
    const bar = new ProgressBar(panel, stop);
    let numFilled = 0;
    const tell = () => `Filled ${numFilled} of ${cells.length} solution cells.`;
    try {
      for (const [idx, cell] of cells.entries()) {
        bar.show(`Filling solution cell ${idx + 1} of ${cells.length}…`, idx / cells.length);
        numFilled += Number(await this._fillCell(panel, cell, controller.signal));
        if (controller.signal.aborted) {
          break;
        }
      }
      const isStopped = controller.signal.aborted;
      Notification.info(`${isStopped ? 'Stopped. ' : ''}${tell()}`, { autoClose: 8000 });
    } catch (reason) {
      const message = reason instanceof Error ? reason.message : String(reason);
      Notification.error(`${tell()} ${message}`, { autoClose: 10_000 });
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

  private async _fillCell(panel: NotebookPanel, cell: Cell, stop: AbortSignal): Promise<boolean> {
    let isFilled = false;
    for (let count = 0; count < MAX_STUBS && !stop.aborted && !cell.isDisposed; count++) {
      const source = viewCell(cell).source;
      const opening = findOpening(source);
      if (!opening || (count > 0 && opening.start === opening.end)) {
        break;
      }
      const slot = { prefix: source.slice(0, opening.start), suffix: source.slice(opening.end) };
      const text = await this._generate(panel, cell, slot, stop);
      if (!text) {
        break;
      }
      replaceRange(cell, opening.start, opening.end, text);
      isFilled = true;
    }
    return isFilled;
  }

  /** The likeliest text for a cell; null if there is none, or the cell was edited meanwhile. */
  private async _generate(
    panel: NotebookPanel,
    cell: Cell,
    slot: { prefix: string; suffix: string },
    stop: AbortSignal
  ): Promise<string | null> {
    const { signal } = this._latest.start([
      ...watchSource(cell),
      onEvent => {
        stop.addEventListener('abort', onEvent);
        return () => {
          stop.removeEventListener('abort', onEvent);
        };
      }
    ]);
    const list = new CandidateList();
    try {
      for await (const line of this._service(
        buildRequest(panel, cell, slot, this._settings(), { n: 1 }),
        signal
      )) {
        readText(line);
        list.add(line);
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
    return isStale ? null : (list.current?.text ?? null);
  }

  private readonly _latest = new LatestOnly();
  private _controller: AbortController | null = null;
}

function findOpenCells(panel: NotebookPanel): Cell[] {
  const widgets = panel.content.widgets;
  const views = widgets.map(cell => ({ ...viewCell(cell), metadata: cell.model.metadata }));
  return findSolutionCells(views)
    .flatMap(idx => widgets[idx] ?? [])
    .filter(cell => refuse(panel, cell) === null);
}
