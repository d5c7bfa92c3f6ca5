import { JupyterFrontEnd } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { CommandRegistry } from '@lumino/commands';

import { AllFiller } from './fillAll';
import { CellFiller } from './filler';
import { fillIcon } from './icons';
import { isSwitchedOff, toggleSwitch } from './offSwitch';
import { IPanelHost } from './panel';
import { FillSession } from './session';
import { StatusMonitor } from './status';
import { CommandIDs } from './tokens';

/** What the commands of the open panel do. */
const PANEL_COMMANDS: Record<string, [label: string, act: (session: FillSession) => void]> = {
  [CommandIDs.accept]: [
    'Accept Candidate',
    session => {
      session.accept('whole');
    }
  ],
  [CommandIDs.acceptLine]: [
    'Accept First Line of Candidate',
    session => {
      session.accept('line');
    }
  ],
  [CommandIDs.acceptWord]: [
    'Accept First Word of Candidate',
    session => {
      session.accept('word');
    }
  ],
  [CommandIDs.next]: [
    'Next Candidate',
    session => {
      session.step(1);
    }
  ],
  [CommandIDs.previous]: [
    'Previous Candidate',
    session => {
      session.step(-1);
    }
  ],
  [CommandIDs.focusPanel]: [
    'Go to Candidate',
    session => {
      session.focus();
    }
  ]
};

/** What the commands set going. */
export interface ICommandTargets {
  filler: CellFiller;
  allFiller: AllFiller;
  monitor: StatusMonitor;
}

/** Register the commands; toolbar button, menu entries and shortcuts are in the schema. */
export function addCommands(
  app: JupyterFrontEnd,
  tracker: INotebookTracker,
  palette: ICommandPalette | null,
  targets: ICommandTargets
): void {
  const findPanel = () => findNotebook(app, tracker);
  addNotebookCommands(app.commands, findPanel, targets);
  addPanelCommands(app.commands, targets.filler);
  for (const command of Object.values(CommandIDs)) {
    palette?.addItem({ command, category: 'JuPyT5' });
  }
}

function addNotebookCommands(
  commands: CommandRegistry,
  findPanel: () => NotebookPanel | null,
  { filler, allFiller, monitor }: ICommandTargets
): void {
  const isOffHere = () => {
    const panel = findPanel();
    return panel !== null && isSwitchedOff(panel);
  };
  // Out of sight, but not disabled: whoever presses the key is told why nothing happens.
  const isOff = () => monitor.offReason !== null || isOffHere();
  commands.addCommand(CommandIDs.fillCell, {
    label: 'Fill This Cell',
    caption:
      'Write this cell from the Markdown above and the cell below; ' +
      'a Markdown cell: describe the code below (JuPyT5)',
    icon: fillIcon,
    isEnabled: () => findPanel()?.content.activeCell !== undefined,
    isVisible: () => !isOff(),
    execute: async () => {
      const panel = findPanel();
      await (panel && filler.fill(panel));
    }
  });
  commands.addCommand(CommandIDs.fillAll, {
    label: 'Fill All Empty Solution Cells',
    caption: 'Fill the cells of this notebook that wait for a solution, one after the other',
    isEnabled: () => findPanel() !== null && !allFiller.isRunning,
    isVisible: () => !isOff(),
    execute: async () => {
      const panel = findPanel();
      await (panel && allFiller.fill(panel));
    }
  });
  commands.addCommand(CommandIDs.stopAll, {
    label: 'Stop Filling Solution Cells',
    isVisible: () => monitor.offReason === null,
    isEnabled: () => allFiller.isRunning,
    execute: () => {
      allFiller.stop();
    }
  });
  commands.addCommand(CommandIDs.toggleNotebook, {
    label: 'JuPyT5 in This Notebook',
    isEnabled: () => findPanel() !== null,
    isVisible: () => monitor.offReason === null,
    isToggled: () => findPanel() !== null && !isOffHere(),
    execute: () => {
      const panel = findPanel();
      if (panel) {
        toggleSwitch(panel);
      }
    }
  });
}

function addPanelCommands(commands: CommandRegistry, filler: CellFiller): void {
  const isEnabled = () => filler.session !== null;
  commands.addCommand(CommandIDs.cancel, {
    label: 'Reject Candidates',
    isEnabled,
    execute: () => {
      filler.cancel();
    }
  });
  commands.addCommand(CommandIDs.again, {
    label: 'Ask for Other Candidates',
    isEnabled,
    execute: () => filler.act(session => session.again())
  });
  commands.addCommand(CommandIDs.showSent, {
    label: 'What Is Sent?',
    isEnabled,
    execute: () => filler.act(session => session.toggleSent())
  });
  commands.addCommand(CommandIDs.toggleTry, {
    label: 'Try Candidates Against the Next Cell',
    isEnabled,
    execute: () => filler.act(session => session.toggleTry())
  });
  for (const [command, [label, act]] of Object.entries(PANEL_COMMANDS)) {
    commands.addCommand(command, {
      label,
      isEnabled,
      execute: () => {
        if (filler.session) {
          act(filler.session);
        }
      }
    });
  }
}

/** What the panel may do with the application's commands. */
export function createPanelHost(commands: CommandRegistry): IPanelHost {
  const ids = new Set<string>(Object.values(CommandIDs));
  const execute = (command: string) => void commands.execute(command);
  return {
    execute,
    keyOf: command => {
      const binding = commands.keyBindings.find(each => each.command === command);
      return binding ? CommandRegistry.formatKeystroke(binding.keys) : '';
    },
    runKey: event => {
      const stroke = CommandRegistry.keystrokeForKeydownEvent(event);
      const binding = commands.keyBindings.find(
        each => ids.has(each.command) && each.keys.length === 1 && each.keys[0] === stroke
      );
      if (binding) {
        execute(binding.command);
      }
      return binding !== undefined;
    }
  };
}

function findNotebook(app: JupyterFrontEnd, tracker: INotebookTracker): NotebookPanel | null {
  const panel = tracker.currentWidget;
  return panel && panel === app.shell.currentWidget ? panel : null;
}
