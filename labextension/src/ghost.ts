import { Notification } from '@jupyterlab/apputils';
import {
  CompletionHandler,
  IInlineCompletionContext,
  IInlineCompletionItem,
  IInlineCompletionList,
  IInlineCompletionProvider,
  InlineCompletionTriggerKind
} from '@jupyterlab/completer';
import { Cell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';
import { UUID } from '@lumino/coreutils';

import { readText } from './candidates';
import { fillIcon } from './icons';
import { LatestOnly } from './latest';
import { CandidateList } from './list';
import { buildRequest, refuse, separateUndoStep, viewCell } from './notebook';
import { splitAtCodePoint } from './offsets';
import { describeFill, recordFill } from './provenance';
import { FillLine, FillService, IFillSettings, ISlot } from './tokens';
import { watchDismissal, watchTarget } from './watches';

const NOTHING: IInlineCompletionList = { items: [] };

/** What ghost text asks of the rest of the extension. */
export interface IGhostHost {
  service: FillService;
  settings: () => IFillSettings;
  /** Whether nothing is to be suggested just now. */
  isHeldBack: () => boolean;
}

/** What was offered last: where, and what is known of the candidates. */
interface IOffer {
  cell: Cell;
  slot: ISlot;
  list: CandidateList;
}

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

  constructor(private readonly _host: IGhostHost) {}

  /** Answer with the beginning of a candidate, or with nothing. */
  async fetch(
    request: CompletionHandler.IRequest,
    context: IInlineCompletionContext
  ): Promise<IInlineCompletionList> {
    this._offer = null;
    const panel = context.widget;
    const cell = panel instanceof NotebookPanel ? panel.content.activeCell : null;
    if (!(panel instanceof NotebookPanel) || !cell || !this._isWanted(panel, cell, request.text)) {
      return NOTHING;
    }
    const settings = this._host.settings();
    const n = settings.numGhostCandidates;
    const slot = splitAtCodePoint(request.text, request.offset);
    const { signal } = this._latest.start([
      ...watchTarget(panel, cell),
      watchDismissal(cell, slot.prefix.length)
    ]);
    signal.addEventListener('abort', () => {
      separateUndoStep(cell);
    });
    const list = new CandidateList();
    this._offer = { cell, slot, list };
    const reply = this._host.service(buildRequest(panel, cell, slot, settings, { n }), signal);
    try {
      const lines = collect(reply, list);
      const items = n > 1 ? await readItems(lines, list) : await this._startStream(lines);
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

  /**
   * Write down what JupyterLab has just put into the cell, if the reader wants that.
   *
   * Undo leaves the record: the text is in the history already, as JupyterLab's own step.
   */
  recordAccepted(): void {
    const offer = this._offer;
    this._offer = null;
    if (!offer || offer.cell.isDisposed || !this._host.settings().recordProvenance) {
      return;
    }
    const { cell, slot, list } = offer;
    const text = findInserted(viewCell(cell).source, slot);
    const candidate = list.candidates.find(each => text !== '' && each.text.startsWith(text));
    if (candidate) {
      const provenance = list.provenance;
      const accepted = {
        via: 'ghost text',
        accepted: 'whole',
        text,
        candidate,
        provenance
      } as const;
      recordFill(cell, describeFill(accepted));
    }
  }

  private _isWanted(panel: NotebookPanel, cell: Cell, text: string): boolean {
    const target = viewCell(cell);
    return (
      this._host.settings().ghostText &&
      !this._host.isHeldBack() &&
      target.kind === 'code' &&
      target.source === text &&
      refuse(panel, cell) === null
    );
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
  private _offer: IOffer | null = null;
}

/** Pass lines on, and keep in a list what they say. */
async function* collect(
  lines: AsyncGenerator<FillLine>,
  list: CandidateList
): AsyncGenerator<FillLine> {
  for await (const line of lines) {
    list.add(line);
    yield line;
  }
}

/** Read a reply to its end: all its candidates, likelier ones first. */
async function readItems(
  lines: AsyncGenerator<FillLine>,
  list: CandidateList
): Promise<IInlineCompletionItem[]> {
  for await (const line of lines) {
    readText(line);
  }
  list.settle();
  return list.candidates.map(each => ({ insertText: each.text }));
}

/** What stands in a source between the ends of a slot; '' where those are no longer its ends. */
function findInserted(source: string, { prefix, suffix }: ISlot): string {
  const isAround =
    source.length >= prefix.length + suffix.length &&
    source.startsWith(prefix) &&
    source.endsWith(suffix);
  return isAround ? source.slice(prefix.length, source.length - suffix.length) : '';
}
