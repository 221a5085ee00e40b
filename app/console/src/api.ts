/** The service behind the console: the client of Hone, and the session of this browser. */
import { ApiError, Hone, type schema, ServerUnreachable } from 'hone';

export const root = document.documentElement.dataset['root'] ?? '';

/** The host of the OpenID provider at which people sign in; empty without one. */
export const provider = document.documentElement.dataset['provider'] ?? '';

// A read link has its token in the fragment, which browsers send to no server.
const fragment = new URLSearchParams(location.hash.slice(1));
const token = fragment.get('token');
const TOKEN = /^honet_[\w-]+\.[\w-]+$/;
export const readToken = token !== null && TOKEN.test(token) ? token : null;

/** Whether the page was opened with a read link of which something is missing. */
export const isLinkBroken = token !== null && readToken === null;

// Another link in the same tab changes the fragment alone, at which browsers load nothing.
addEventListener('hashchange', () => {
  const now = new URLSearchParams(location.hash.slice(1)).get('token');
  if (now !== null && now !== token) location.reload();
});

/** How the server answered last: as ever, not at all, or that the session has ended. */
export type Connection = 'there' | 'away' | 'signed out';

let sessions = 0; // how often this page began to act as somebody
let actsAs: string | undefined; // the key that it acts as
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
  const before = sessions;
  try {
    const response = await fetch(...call);
    if (AWAY.has(response.status)) connectionIs('away');
    else if (response.status === 401) before === sessions && connectionIs('signed out'); // else it was asked as somebody before
    else if (connection === 'away') connectionIs('there');
    return response;
  } catch (failure) {
    if (!(failure instanceof DOMException && failure.name === 'AbortError')) connectionIs('away');
    throw failure;
  }
};

/** Say with every request whom the page shows: the cookie may be of somebody who has signed in in another tab since. */
const actingFetch: typeof fetch = (address, init) => {
  const headers = new Headers(init?.headers);
  if (actsAs) headers.set('Hone-Session', actsAs);
  return watchedFetch(address, { ...init, headers });
};

const SERVER = { url: location.origin + root, maxRetries: 2 };
const browser = new Hone({ ...SERVER, fetch: watchedFetch });
export const hone = new Hone({ ...SERVER, fetch: actingFetch, ...(readToken ? { apiKey: readToken } : {}) });

export interface Session {
  tenant: string;
  scopes: string[];
  key_id: string | null;
  /** The name of the key, or of the person who has signed in. */
  name: string;
  /** The ids by which reviews know the key: its own, and those of the keys that it replaces. */
  reviews_as: string[];
  /** Whether the server lets everybody in, because it has no API keys. */
  is_open: boolean;
}

/** What the bearer of a read link may do. */
const READER: Session = { tenant: '', scopes: ['read'], key_id: null, name: '', reviews_as: [], is_open: false };

/** A review without reviewers is anybody's; without keys, reviewers are names of people. */
export const mayDecide = (session: Session, reviewers: readonly string[]): boolean =>
  !reviewers.length || session.key_id === null || session.reviews_as.some((it) => reviewers.includes(it));

/** Return who this browser is signed in as; null if a key is needed first. */
export async function session(): Promise<Session | null> {
  if (readToken) return READER;
  try {
    return await browser.request<Session>('/console/session');
  } catch (error) {
    if (error instanceof ApiError && (error.status === 401 || error.status === 403)) return null;
    throw error;
  }
}

/** Let the page act as somebody from now on. */
export function actAs(session: Session): void {
  if (!readToken) actsAs = session.key_id ?? 'none';
  sessions++;
  connectionIs('there');
}

export async function signIn(key: string): Promise<void> {
  await browser.request('/console/session', { method: 'POST', json: { key } });
  tabs.postMessage('signed in');
}

export async function signOut(): Promise<void> {
  await browser.request('/console/session', { method: 'DELETE' });
  tabs.postMessage('signed out');
}

const tabs = new BroadcastChannel(`hone ${root}`);

/** Have a function called when somebody signs in or out in another tab, until the returned one is called. */
export function watchTabs(watcher: () => void): () => void {
  tabs.addEventListener('message', watcher);
  return () => tabs.removeEventListener('message', watcher);
}

/** Return the iteration at a path, such as `reviews/1/iterations/2`, with its whole text. */
export async function readDraft(id: string, path: string, signal?: AbortSignal): Promise<schema.Iteration> {
  const [, search = '', number] = /^(?:(.*)\/)?iterations\/(\d+)$/.exec(path) ?? [];
  if (number !== undefined) return hone.request(`/v1/refinements/${id}/iterations/${number}`, { query: { path: search }, signal });
  const found = (await hone.iterations(id)).data.filter((it) => it.path === path);
  const last = found.at(-1);
  if (!last) throw new Error(`There is no draft at ${path}.`);
  return last;
}

/** Return what to show of a failure: an error of the API says what is wrong and where. */
export function messageOf(failure: unknown): string {
  if (failure instanceof ServerUnreachable) return 'The server did not answer. Nothing that you typed is lost: try it again.';
  return failure instanceof Error ? failure.message : String(failure);
}
