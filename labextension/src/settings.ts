import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { IFillSettings } from './tokens';

const DEFAULTS: IFillSettings = {
  provider: undefined,
  numContextCells: undefined,
  numFollowingCells: undefined,
  kernelFacts: false,
  ghostText: true,
  numCandidates: 3,
  numGhostCandidates: 1,
  recordProvenance: false
};

/**
 * Follow the reader's settings; the returned function tells what they are now.
 *
 * @param onProvider Called when another provider is set.
 */
export function followSettings(
  registry: ISettingRegistry | null,
  pluginId: string,
  onProvider: () => void
): () => IFillSettings {
  let current = DEFAULTS;
  registry
    ?.load(pluginId)
    .then(settings => {
      const update = () => {
        const { provider } = current;
        current = readSettings(settings);
        if (provider !== current.provider) {
          onProvider();
        }
      };
      settings.changed.connect(update);
      update();
    })
    .catch((reason: unknown) => {
      console.error('JuPyT5 goes on with its default settings:', reason);
    });
  return () => current;
}

function readSettings(settings: ISettingRegistry.ISettings): IFillSettings {
  // What the reader has not set is left to the server, where an administrator may have set it.
  const number = (name: string) => settings.get(name).user as number | undefined;
  return {
    provider: (settings.get('provider').user as string | undefined) || undefined,
    numContextCells: number('numContextCells'),
    numFollowingCells: number('numFollowingCells'),
    kernelFacts: settings.get('kernelFacts').composite as boolean,
    ghostText: settings.get('ghostText').composite as boolean,
    numCandidates: settings.get('numCandidates').composite as number,
    numGhostCandidates: settings.get('numGhostCandidates').composite as number,
    recordProvenance: settings.get('recordProvenance').composite as boolean
  };
}
