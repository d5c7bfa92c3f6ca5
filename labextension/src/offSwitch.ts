import { INotebookModel, INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

/** The key of the notebook's metadata that holds the switch. */
const KEY = 'jupyt5';

export const OFF_HERE = 'JuPyT5 is switched off in this notebook (jupyt5.enabled in its metadata).';

/** Whether the notebook's metadata say `jupyt5.enabled: false`, as a course author may write. */
export function isSwitchedOff(panel: NotebookPanel): boolean {
  return readMetadata(panel).enabled === false;
}

/** Switch the assistant off in a notebook, or on again; this changes the notebook's metadata. */
export function toggleSwitch(panel: NotebookPanel): void {
  const model = panel.content.model;
  const { enabled, ...others } = readMetadata(panel);
  if (enabled !== false) {
    model?.setMetadata(KEY, { ...others, enabled: false });
  } else if (Object.keys(others).length) {
    model?.setMetadata(KEY, others);
  } else {
    model?.deleteMetadata(KEY);
  }
}

/** Tell when another notebook is in front, or the metadata of an open one change. */
export function watchSwitches(tracker: INotebookTracker, onChange: () => void): void {
  tracker.currentChanged.connect(onChange);
  tracker.widgetAdded.connect((_, panel) => {
    const follow = (model: INotebookModel | null) => {
      model?.metadataChanged.connect(onChange);
      onChange();
    };
    panel.content.modelChanged.connect(() => {
      follow(panel.content.model);
    });
    follow(panel.content.model);
  });
}

function readMetadata(panel: NotebookPanel): Record<string, unknown> {
  const value: unknown = panel.content.model?.getMetadata(KEY);
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
