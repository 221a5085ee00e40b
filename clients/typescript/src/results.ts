import { NotPassed, RefinementCanceled, RefinementFailed } from './errors.js';
import type * as schema from './schema.js';

/** The best judged draft of a refinement that has ended: check `passed` before you use it. */
export interface Result extends schema.Result {
  id: string;
  /** Whether the draft meets everything that was asked. */
  passed: boolean;
  /** `passed`, or `best_effort`: the best draft, which does not meet all that was asked. */
  outcome: string;
  /** Why the outcome is that, in one sentence. */
  reason: string;
  usage: schema.Usage;
}

/** Return the result of a refinement that has ended. */
export function resultOf(snapshot: schema.Snapshot, mustPass: boolean | undefined): Result {
  if (snapshot.outcome === 'canceled') throw new RefinementCanceled(snapshot);
  if (snapshot.outcome === 'failed' || !snapshot.result) throw new RefinementFailed(snapshot);
  const { id, usage } = snapshot;
  const [outcome, reason] = [snapshot.outcome ?? '', snapshot.reason ?? ''];
  const result = { ...snapshot.result, id, passed: outcome === 'passed', outcome, reason, usage };
  if (!result.passed && mustPass) throw new NotPassed(snapshot, result);
  if (!result.passed && mustPass === undefined) console.warn(`${id}: ${outcome}: ${reason}`);
  return result;
}
