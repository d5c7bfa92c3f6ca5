import { Notification } from '@jupyterlab/apputils';
import { NotebookPanel } from '@jupyterlab/notebook';

import { LatestOnly } from './latest';
import { refuse } from './notebook';
import { FillSession, ISessionHost } from './session';
import { watchTarget } from './watches';

/** Set on a notebook while the panel is open; the panel's shortcuts need it. */
const FILLING_CLASS = 'jp-jupyt5-mod-filling';

/** The command "Fill this cell" and what follows from it: at most one session is open. */
export class CellFiller {
  constructor(private readonly _host: ISessionHost) {}

  /** The session that is open, or null. */
  get session(): FillSession | null {
    return this._session;
  }

  /** Fill the active cell of a notebook; resolves when all candidates are there. */
  async fill(panel: NotebookPanel): Promise<void> {
    const cell = panel.content.activeCell;
    if (!cell) {
      return;
    }
    const refusal = this._host.offReason() ?? refuse(panel, cell);
    if (refusal) {
      Notification.warning(refusal, { autoClose: 5000 });
      return;
    }
    const isOwnEdit = () => this._session?.isEditing ?? false;
    const controller = this._latest.start(watchTarget(panel, cell, isOwnEdit));
    const session = new FillSession(panel, cell, this._host, controller);
    this._session = session;
    panel.content.addClass(FILLING_CLASS);
    controller.signal.addEventListener('abort', () => {
      panel.content.removeClass(FILLING_CLASS);
      this._session = this._session === session ? null : this._session;
    });
    await this._follow(session, session.run());
  }

  /** Let the open session do something that takes its time; what goes wrong is shown. */
  async act(what: (session: FillSession) => Promise<void>): Promise<void> {
    const session = this._session;
    await (session && this._follow(session, what(session)));
  }

  /** Close the panel; the cell stays as it is. */
  cancel(): void {
    this._latest.abort();
  }

  private async _follow(session: FillSession, run: Promise<void>): Promise<void> {
    try {
      await run;
    } catch (reason) {
      if (this._session === session) {
        this.cancel();
        const message = reason instanceof Error ? reason.message : String(reason);
        Notification.error(message, { autoClose: 10_000 });
      }
    }
  }

  private readonly _latest = new LatestOnly();
  private _session: FillSession | null = null;
}
