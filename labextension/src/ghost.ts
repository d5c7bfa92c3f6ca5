import { Notification } from '@jupyterlab/apputils';
import {
  CompletionHandler,
  IInlineCompletionContext,
  IInlineCompletionItem,
  IInlineCompletionList,
  IInlineCompletionProvider,
  InlineCompletionTriggerKind
} from '@jupyterlab/completer';
import { NotebookPanel } from '@jupyterlab/notebook';
import { UUID } from '@lumino/coreutils';

import { collectTexts, readText } from './candidates';
import { fillIcon } from './icons';
import { LatestOnly } from './latest';
import { buildRequest, refuse, separateUndoStep, viewCell } from './notebook';
import { splitAtCodePoint } from './offsets';
import { FillLine, FillService, IFillSettings } from './tokens';
import { watchDismissal, watchTarget } from './watches';

const NOTHING: IInlineCompletionList = { items: [] };

/** Offers candidates as ghost text at the cursor. */
export class GhostTextProvider implements IInlineCompletionProvider {
  readonly identifier = 'jupyt5';
  readonly name = 'JuPyT5';
  readonly icon = fillIcon;
  readonly schema = {
    properties: {},
    // JupyterLab takes these as the starting values of its own settings for a provider.
    default: { enabled: true, debouncerDelay: 300, timeout: 60_000 }
  };

  /**
   * @param _isHeldBack Tells whether nothing is to be suggested just now.
   */
  constructor(
    private readonly _service: FillService,
    private readonly _settings: () => IFillSettings,
    private readonly _isHeldBack: () => boolean
  ) {}

  /** Answer with the beginning of a candidate, or with nothing. */
  async fetch(
    request: CompletionHandler.IRequest,
    context: IInlineCompletionContext
  ): Promise<IInlineCompletionList> {
    const panel = context.widget;
    const cell = panel instanceof NotebookPanel ? panel.content.activeCell : null;
    if (
      !(panel instanceof NotebookPanel) ||
      !cell ||
      !this._settings().ghostText ||
      this._isHeldBack()
    ) {
      return NOTHING;
    }
    const target = viewCell(cell);
    const isWanted = target.kind === 'code' && target.source === request.text;
    if (!isWanted || refuse(panel, cell)) {
      return NOTHING;
    }
    const n = this._settings().numGhostCandidates;
    const slot = splitAtCodePoint(request.text, request.offset);
    const { signal } = this._latest.start([
      ...watchTarget(panel, cell),
      watchDismissal(cell, slot.prefix.length)
    ]);
    signal.addEventListener('abort', () => {
      separateUndoStep(cell);
    });
    const lines = this._service(buildRequest(panel, cell, slot, this._settings(), { n }), signal);
    try {
      const items = n > 1 ? await collectItems(lines) : await this._startStream(lines);
      // Accepting is then one step, whatever was typed a moment ago.
      separateUndoStep(cell);
      return signal.aborted ? NOTHING : { items };
    } catch (reason) {
      if (context.triggerKind === InlineCompletionTriggerKind.Invoke && reason instanceof Error) {
        Notification.warning(reason.message, { autoClose: 5000 });
      }
      return NOTHING;
    }
  }

  /** Go on with a candidate that `fetch` began. JupyterLab calls this for stale ones, too. */
  async *stream(token: string): AsyncGenerator<{ response: IInlineCompletionItem }> {
    const lines = this._streams.get(token);
    this._streams.delete(token);
    for (let line = await lines?.next(); line && !line.done; line = await lines?.next()) {
      const text = readText(line.value);
      if (text !== null) {
        yield { response: { insertText: text, isIncomplete: true } };
      }
    }
  }

  private async _startStream(lines: AsyncGenerator<FillLine>): Promise<IInlineCompletionItem[]> {
    for (let line = await lines.next(); !line.done; line = await lines.next()) {
      const text = readText(line.value);
      if (text) {
        const token = UUID.uuid4();
        this._streams.set(token, lines);
        return [{ insertText: text, isIncomplete: true, token }];
      }
    }
    return [];
  }

  private readonly _latest = new LatestOnly();
  private readonly _streams = new Map<string, AsyncGenerator<FillLine>>();
}

async function collectItems(lines: AsyncGenerator<FillLine>): Promise<IInlineCompletionItem[]> {
  return (await collectTexts(lines)).map(insertText => ({ insertText }));
}
