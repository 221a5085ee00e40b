/** The service behind the console: the client of Hone, and the session of this browser. */
import { ApiError, Hone } from 'hone';

export const root = document.documentElement.dataset['root'] ?? '';

// A read link has its token in the fragment, which browsers send to no server.
const fragment = new URLSearchParams(location.hash.slice(1));
export const readToken = fragment.get('token');

/** How the server answered last: as ever, not at all, or that the session has ended. */
export type Connection = 'there' | 'away' | 'signed out';

const AWAY = new Set([502, 503, 504]);
let connection: Connection = 'there';
const watchers = new Set<(now: Connection) => void>();

/** Have a function called when the connection changes, until the returned one is called. */
export function watchConnection(watcher: (now: Connection) => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

function connectionIs(now: Connection): void {
  if (now === connection) return;
  connection = now;
  for (const watcher of [...watchers]) watcher(now);
}

const watchedFetch: typeof fetch = async (...call) => {
  try {
    const response = await fetch(...call);
    if (AWAY.has(response.status)) connectionIs('away');
    else if (response.status === 401) connectionIs('signed out');
    else connectionIs('there');
    return response;
  } catch (failure) {
    if (!(failure instanceof DOMException && failure.name === 'AbortError')) connectionIs('away');
    throw failure;
  }
};

export const hone = new Hone({
  url: location.origin + root,
  maxRetries: 2,
  fetch: watchedFetch,
  ...(readToken ? { apiKey: readToken } : {}),
});

export interface Session {
  tenant: string;
  scopes: string[];
  key_id: string | null;
}

/** What the bearer of a read link may do. */
const READER: Session = { tenant: '', scopes: ['read'], key_id: null };

/** Return who this browser acts as; null if a key is needed first. */
export async function session(): Promise<Session | null> {
  if (readToken) return READER;
  try {
    return await hone.request<Session>('/console/session');
  } catch (error) {
    if (error instanceof ApiError && (error.status === 401 || error.status === 403)) return null;
    throw error;
  }
}

export async function signIn(key: string): Promise<void> {
  await hone.request('/console/session', { method: 'POST', json: { key } });
}

export async function signOut(): Promise<void> {
  await hone.request('/console/session', { method: 'DELETE' });
}

/** Return what to show of a failure: an error of the API says what is wrong and where. */
export const messageOf = (failure: unknown): string => (failure instanceof Error ? failure.message : String(failure));
