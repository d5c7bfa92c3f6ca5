import { Cell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';

import { Watch } from './latest';

/** What makes the answer for a cell stale: another active cell, another source, a closed page. */
export function watchTarget(panel: NotebookPanel, cell: Cell): Watch[] {
  return [
    onEvent => {
      const slot = () => {
        onEvent();
      };
      panel.content.activeCellChanged.connect(slot);
      return () => panel.content.activeCellChanged.disconnect(slot);
    },
    onEvent => {
      const shared = cell.model.sharedModel;
      const slot = (_: unknown, change: { sourceChange?: unknown }) => {
        if (change.sourceChange) {
          onEvent();
        }
      };
      shared.changed.connect(slot);
      return () => shared.changed.disconnect(slot);
    },
    onEvent => {
      panel.disposed.connect(onEvent);
      return () => panel.disposed.disconnect(onEvent);
    }
  ];
}
