import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';

import { CellKind } from './tokens';

const MIME_TYPES: Record<CellKind, string> = {
  code: 'text/x-ipython',
  markdown: 'text/x-ipythongfm',
  raw: 'text/plain'
};

/** Colours source text as JupyterLab's editors do, and hands it out line by line. */
export class Highlighter {
  constructor(private readonly _languages: IEditorLanguageRegistry | null) {}

  /** Colour a text; without JupyterLab's languages it stays plain. */
  async lines(text: string, kind: CellKind): Promise<DocumentFragment[]> {
    const host = document.createElement('div');
    const language = this._languages?.findByMIME(MIME_TYPES[kind]);
    if (this._languages && language) {
      await this._languages.highlight(text, language, host);
    } else {
      host.textContent = text;
    }
    return splitLines(host);
  }
}

/** Take coloured text apart at its line ends; a piece that spans lines is repeated in each. */
function splitLines(host: HTMLElement): DocumentFragment[] {
  let line = document.createDocumentFragment();
  const lines = [line];
  for (const piece of host.childNodes) {
    (piece.textContent ?? '').split('\n').forEach((text, idx) => {
      if (idx > 0) {
        line = document.createDocumentFragment();
        lines.push(line);
      }
      const part = piece.cloneNode(false);
      part.textContent = text;
      line.append(part);
    });
  }
  return lines;
}
