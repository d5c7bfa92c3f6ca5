import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';

import { addCommands, createPanelHost } from './commands';
import { createConsentDesk } from './consent';
import { AllFiller } from './fillAll';
import { CellFiller } from './filler';
import { GhostTextProvider } from './ghost';
import { Highlighter } from './highlight';
import { CandidatePanel } from './panel';
import { createContextService, createFillService, createStatusService } from './requests';
import { followSettings } from './settings';
import { ISessionHost } from './session';
import { StatusMonitor } from './status';
import { showStatus } from './statusItem';

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
    IEditorLanguageRegistry,
    IStatusBar
  ],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    completers: ICompletionProviderManager | null,
    registry: ISettingRegistry | null,
    languages: IEditorLanguageRegistry | null,
    statusBar: IStatusBar | null
  ) => {
    const start = performance.now();
    const server = app.serviceManager.serverSettings;
    const settings = followSettings(registry, PLUGIN_ID, () => void monitor.refresh());
    const monitor: StatusMonitor = new StatusMonitor(
      createStatusService(server),
      () => settings().provider
    );
    const host = {
      service: monitor.watch(createFillService(server)),
      context: createContextService(server),
      consents: createConsentDesk(server),
      settings,
      offReason: () => monitor.offReason
    };
    const highlighter = new Highlighter(languages);
    const panelHost = createPanelHost(app.commands);
    const makePanel: ISessionHost['makePanel'] = cell =>
      new CandidatePanel(cell, highlighter, panelHost);
    const filler = new CellFiller({ ...host, makePanel });
    addCommands(app, tracker, palette, { filler, allFiller: new AllFiller(host), monitor });
    const isHeldBack = () => filler.session !== null || monitor.offReason !== null;
    offerGhostText(app, completers, new GhostTextProvider({ ...host, isHeldBack }));
    showStatus(app, tracker, monitor, statusBar);
    performance.measure('jupyt5:activate', { start });
  }
};

function offerGhostText(
  app: JupyterFrontEnd,
  completers: ICompletionProviderManager | null,
  ghost: GhostTextProvider
): void {
  completers?.registerInlineProvider(ghost);
  app.commands.commandExecuted.connect((_, { id }) => {
    if (id === 'inline-completer:accept') {
      ghost.recordAccepted();
    }
  });
}

export default plugin;
