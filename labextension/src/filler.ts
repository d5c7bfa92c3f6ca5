import { Notification } from '@jupyterlab/apputils';
import { Cell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';

import { readText } from './candidates';
import { findRefusal } from './context';
import { LatestOnly } from './latest';
import { buildRequest, findLanguage, findSlot, replaceRange, viewCell } from './notebook';
import { Preview } from './preview';
import { FillService, IFillSettings } from './tokens';
import { watchTarget } from './watches';

/** Set on a notebook while one of its cells is being filled; the shortcut to cancel needs it. */
const FILLING_CLASS = 'jp-jupyt5-mod-filling';

/** The command "Fill this cell": asks for one candidate and puts it into the cell. */
export class CellFiller {
  constructor(
    private readonly _service: FillService,
    private readonly _settings: () => IFillSettings
  ) {}

  /** Fill the active cell of a notebook; resolves when it is filled, or will not be. */
  async fill(panel: NotebookPanel): Promise<void> {
    const cell = panel.content.activeCell;
    if (!cell) {
      return;
    }
    const refusal = findRefusal(viewCell(cell), findLanguage(panel));
    if (refusal) {
      Notification.warning(refusal, { autoClose: 5000 });
      return;
    }
    const controller = this._latest.start(watchTarget(panel, cell));
    const signal = controller.signal;
    const preview = new Preview(cell);
    const { start, end, slot } = findSlot(panel, cell);
    panel.content.addClass(FILLING_CLASS);
    this._filling.set(panel, signal);
    try {
      const request = buildRequest(panel, cell, slot, this._settings(), 1);
      const text = await this._generate(request, signal, preview);
      if (!signal.aborted) {
        this._insert(cell, start, end, text);
      }
    } catch (reason) {
      this._showError(reason);
    } finally {
      preview.dispose();
      controller.abort(); // takes the watches off
      if (this._filling.get(panel) === signal) {
        panel.content.removeClass(FILLING_CLASS);
      }
    }
  }

  /** Stop filling; the cell stays as it is. */
  cancel(): void {
    this._latest.abort();
  }

  private async _generate(
    request: Parameters<FillService>[0],
    signal: AbortSignal,
    preview: Preview
  ): Promise<string> {
    let text = '';
    preview.setNote('Filling this cell… (Esc cancels)');
    for await (const line of this._service(request, signal)) {
      if (signal.aborted) {
        break;
      } else if (line.type === 'status' && line.state === 'loading') {
        preview.setNote('Loading the model… (Esc cancels)');
      }
      const soFar = readText(line);
      if (soFar !== null) {
        text = soFar;
        preview.setText(text);
      }
    }
    return text;
  }

  private _insert(cell: Cell, start: number, end: number, text: string): void {
    if (text.trim() === '') {
      Notification.info('The model has no suggestion for this cell.', { autoClose: 5000 });
      return;
    }
    replaceRange(cell, start, end, text);
  }

  private _showError(reason: unknown): void {
    const message = reason instanceof Error ? reason.message : String(reason);
    Notification.error(message, { autoClose: 10_000 });
  }

  private readonly _latest = new LatestOnly();
  private readonly _filling = new WeakMap<NotebookPanel, AbortSignal>();
}
