import { IContextReply, IFillRequest } from './tokens';

/** Put a request into words: everything of the notebook that leaves the page. */
export function describeRequest(request: IFillRequest): string {
  const size = new TextEncoder().encode(JSON.stringify(request)).length;
  const cells = request.cells.map((cell, idx) =>
    idx === request.target_idx
      ? `[${idx + 1}: this cell]\n${request.prefix}▮${request.suffix}`
      : `[${idx + 1}: ${cell.kind}]\n${cell.source}`
  );
  const head = `Sent to the Jupyter server: ${request.cells.length} cells, ${size} bytes, no outputs.`;
  return [head, ...cells].join('\n\n');
}

/** Put into words what of it reaches the model, variables of the kernel included. */
export function describeContext(reply: IContextReply): string {
  const facts = reply.facts === null && reply.facts_reason !== 'not asked for';
  return [
    `Of this, ${reply.provider} gets ${reply.num_tokens} tokens:`,
    reply.text,
    ...(facts ? [`No variables: ${reply.facts_reason}.`] : [])
  ].join('\n\n');
}
