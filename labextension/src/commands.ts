import { JupyterFrontEnd } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';

import { CellFiller } from './filler';
import { fillIcon } from './icons';
import { CommandIDs } from './tokens';

/** Register the commands; toolbar button, menu entry and shortcuts are in the schema. */
export function addCommands(
  app: JupyterFrontEnd,
  tracker: INotebookTracker,
  palette: ICommandPalette | null,
  filler: CellFiller
): void {
  const findPanel = () => {
    const panel = tracker.currentWidget;
    return panel && panel === app.shell.currentWidget ? panel : null;
  };
  app.commands.addCommand(CommandIDs.fillCell, {
    label: 'Fill This Cell',
    caption: 'Write this cell from the Markdown above and the cell below (JuPyT5)',
    icon: fillIcon,
    isEnabled: () => findPanel()?.content.activeCell !== undefined,
    execute: async () => {
      const panel = findPanel();
      if (panel) {
        await filler.fill(panel);
      }
    }
  });
  app.commands.addCommand(CommandIDs.cancel, {
    label: 'Stop Filling This Cell',
    isEnabled: () => findPanel() !== null,
    execute: () => {
      filler.cancel();
    }
  });
  for (const command of [CommandIDs.fillCell, CommandIDs.cancel]) {
    palette?.addItem({ command, category: 'JuPyT5' });
  }
}
