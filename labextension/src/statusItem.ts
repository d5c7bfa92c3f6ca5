import { JupyterFrontEnd } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IStatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';

import { isSwitchedOff, OFF_HERE, watchSwitches } from './offSwitch';
import { IAssistantStatus, StatusMonitor } from './status';
import { describeStatus } from './statusText';
import { CommandIDs } from './tokens';

const CLASS = 'jp-jupyt5-status';

/** Shows where the assistant stands; a click asks the server again. */
export class StatusItem extends Widget {
  constructor(
    private readonly _status: () => IAssistantStatus,
    onClick: () => void
  ) {
    super();
    this.addClass(CLASS);
    this._button.type = 'button';
    this._button.addEventListener('mousedown', event => {
      event.preventDefault(); // the editor keeps the focus
    });
    this._button.addEventListener('click', onClick);
    this.node.append(this._button);
    this.refresh();
  }

  /** Show what is now. */
  refresh(): void {
    const status = this._status();
    const { text, title } = describeStatus(status);
    this._button.textContent = text;
    this._button.title = `${title} Press to ask again.`;
    this._button.setAttribute('aria-label', this._button.title);
    this._button.dataset.state = status.state;
  }

  private readonly _button = document.createElement('button');
}

/** Show the status in the status bar, or where there is none (Notebook 7) beside the menu. */
export function showStatus(
  app: JupyterFrontEnd,
  tracker: INotebookTracker,
  monitor: StatusMonitor,
  statusBar: IStatusBar | null
): void {
  const current = (): IAssistantStatus => {
    const panel = tracker.currentWidget;
    const isOffHere = monitor.offReason === null && panel !== null && isSwitchedOff(panel);
    return isOffHere ? { ...monitor.current, state: 'off', reason: OFF_HERE } : monitor.current;
  };
  const item = new StatusItem(current, () => void monitor.refresh());
  item.id = CLASS;
  if (statusBar) {
    statusBar.registerStatusItem('jupyt5:status', { item, align: 'right', rank: 10 });
  } else {
    app.shell.add(item, 'menu', { rank: 1000 });
  }
  let isOff = false;
  const refresh = () => {
    item.refresh();
    if (isOff !== (current().state === 'off')) {
      isOff = !isOff;
      app.commands.notifyCommandChanged(CommandIDs.fillCell); // shows or hides its buttons
    }
  };
  monitor.changed.connect(refresh);
  watchSwitches(tracker, refresh);
  const onReturn = () => void (document.hidden || monitor.refreshIfOld());
  window.addEventListener('focus', onReturn);
  document.addEventListener('visibilitychange', onReturn);
  void app.restored.then(() => monitor.start());
}
