import { IAssistantStatus } from './status';

const WORDS: Record<IAssistantStatus['state'], [word: string, meaning: string]> = {
  unknown: ['…', 'Asking the server.'],
  off: ['off', ''],
  idle: ['idle', 'The model is loaded with the first request.'],
  loading: ['loading', 'The model is being loaded.'],
  ready: ['ready', ''],
  busy: ['busy', ''],
  offline: ['offline', '']
};

/** Put a status into words: short for the bar, at length for the tooltip and screen readers. */
export function describeStatus(status: IAssistantStatus): { text: string; title: string } {
  const [word, meaning] = WORDS[status.state];
  const provider = status.provider && status.state !== 'off' ? `Provider ${status.provider}.` : '';
  const details = [provider, status.reason || meaning].filter(Boolean).join(' ');
  return {
    text: `JuPyT5: ${word}`,
    title: `JuPyT5 is ${word === '…' ? 'not known yet' : word}. ${details}`.trim()
  };
}
