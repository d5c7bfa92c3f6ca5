import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { addCommands } from './commands';
import { CellFiller } from './filler';
import { GhostTextProvider } from './ghost';
import { createFillService } from './requests';
import { followSettings } from './settings';

const PLUGIN_ID = 'jupyt5-labextension:plugin';

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Fills cells from the Markdown above and the tests below.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ICompletionProviderManager, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    completers: ICompletionProviderManager | null,
    registry: ISettingRegistry | null
  ) => {
    const settings = followSettings(registry, PLUGIN_ID);
    const service = createFillService(app.serviceManager.serverSettings);
    addCommands(app, tracker, palette, new CellFiller(service, settings));
    completers?.registerInlineProvider(new GhostTextProvider(service, settings));
  }
};

export default plugin;
