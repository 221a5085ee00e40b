/** What a person can do to a refinement. */
import type { Snapshot } from 'hone';
import type { Session } from './api.js';
import type { Live } from './live.js';

export interface Steered {
  snapshot: Snapshot;
  live: Live;
  session: Session;
}

export function Steer(_of: Steered) {
  return null;
}
