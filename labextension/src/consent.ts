import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

/** Whether candidates may be tried in a notebook (`allowed`), and whether the server can. */
export interface IConsent {
  allowed: boolean;
  available: boolean;
  reason: string;
}

/** Where the reader's consents are kept: on the server, by notebook path. */
export interface IConsentDesk {
  get(path: string): Promise<IConsent>;
  set(path: string, allowed: boolean): Promise<IConsent>;
}

const URL_PARTS = ['jupyt5', 'api', 'consent'];

/** Make the desk of the server of these settings; each notebook is asked about once. */
export function createConsentDesk(settings: ServerConnection.ISettings): IConsentDesk {
  const known = new Map<string, Promise<IConsent>>();
  const url = URLExt.join(settings.baseUrl, ...URL_PARTS);
  const call = async (address: string, init: RequestInit): Promise<IConsent> => {
    const response = await ServerConnection.makeRequest(address, init, settings);
    if (!response.ok) {
      throw new ServerConnection.ResponseError(response);
    }
    return (await response.json()) as IConsent;
  };
  return {
    get: path => {
      const query = URLExt.objectToQueryString({ notebook_path: path });
      const answer =
        known.get(path) ??
        call(url + query, {}).catch((reason: unknown) => {
          known.delete(path); // asked again next time
          return { allowed: false, available: false, reason: String(reason) };
        });
      known.set(path, answer);
      return answer;
    },
    set: async (path, allowed) => {
      const body = JSON.stringify({ notebook_path: path, allowed });
      const consent = await call(url, { method: 'POST', body });
      known.set(path, Promise.resolve(consent));
      return consent;
    }
  };
}
