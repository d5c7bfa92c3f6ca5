import { IFillRequest } from './tokens';

/** Put a request into words: everything of the notebook that leaves the page. */
export function describeRequest(request: IFillRequest): string {
  const size = new TextEncoder().encode(JSON.stringify(request)).length;
  const cells = request.cells.map((cell, idx) =>
    idx === request.target_idx
      ? `[${idx + 1}: this cell]\n${request.prefix}▮${request.suffix}`
      : `[${idx + 1}: ${cell.kind}]\n${cell.source}`
  );
  const provider = request.provider ?? "the server's provider";
  return [
    `${request.cells.length} cells, ${size} bytes, to ${provider}; no outputs, no variables.`,
    'The model sees the nearest of them, as far as they fit into its window.',
    ...cells
  ].join('\n\n');
}
