/** The names of keys and people, which administrators may see. */
import type { schema } from 'hone';
import { hone, type Session } from './api.js';
import { useLoaded } from './parts.js';

/** Return a function for the name of who has an id; an id of nobody known stays as it is. */
export function useNames(session: Session): (id: string) => string {
  const mayRead = session.scopes.includes('admin');
  const { value } = useLoaded(
    (signal) => (mayRead ? hone.request<schema.KeyList>('/v1/keys', { signal }) : Promise.resolve(undefined)),
    [mayRead],
  );
  const names = new Map(value?.data.map((it) => [it.id, it.name]));
  return (id) => (id === session.key_id && session.name) || names.get(id) || id;
}
