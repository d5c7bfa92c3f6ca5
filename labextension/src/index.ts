import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { addCommands, createPanelHost } from './commands';
import { AllFiller } from './fillAll';
import { CellFiller } from './filler';
import { GhostTextProvider } from './ghost';
import { createConsentDesk } from './consent';
import { Highlighter } from './highlight';
import { CandidatePanel } from './panel';
import { createContextService, createFillService } from './requests';
import { followSettings } from './settings';

const PLUGIN_ID = 'jupyt5-labextension:plugin';

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Fills cells from the Markdown above and the tests below.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [
    ICommandPalette,
    ICompletionProviderManager,
    ISettingRegistry,
    IEditorLanguageRegistry
  ],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    completers: ICompletionProviderManager | null,
    registry: ISettingRegistry | null,
    languages: IEditorLanguageRegistry | null
  ) => {
    const settings = followSettings(registry, PLUGIN_ID);
    const service = createFillService(app.serviceManager.serverSettings);
    const highlighter = new Highlighter(languages);
    const panelHost = createPanelHost(app.commands);
    const filler = new CellFiller({
      service,
      context: createContextService(app.serviceManager.serverSettings),
      consents: createConsentDesk(app.serviceManager.serverSettings),
      settings,
      makePanel: cell => new CandidatePanel(cell, highlighter, panelHost)
    });
    addCommands(app, tracker, palette, filler, new AllFiller(service, settings));
    completers?.registerInlineProvider(
      new GhostTextProvider(service, settings, () => filler.session !== null)
    );
  }
};

export default plugin;
