/** Reading from the service: one read at a time, and again after a failure that need not last. */
import { ApiError } from 'hone';
import { watchConnection } from './api.js';

const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 5_000;

/** Whether asking again would be refused in the same way. */
export const isLasting = (failure: unknown): boolean =>
  failure instanceof ApiError && failure.status < 500 && failure.status !== 401 && failure.status !== 429;

/** Return once the server answers as ever again, after a while, or when the signal is aborted. */
export function recovered(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const go = () => {
      clearTimeout(timer);
      unwatch();
      signal.removeEventListener('abort', go);
      done();
    };
    const unwatch = watchConnection((now) => now === 'there' && go());
    const timer = setTimeout(go, milliseconds);
    signal.addEventListener('abort', go);
  });
}

/** Have a function called when the browser shows the page again that it kept as it was (Back), until the returned one is called. */
export function watchReturns(watcher: () => void): () => void {
  const shown = (event: PageTransitionEvent) => event.persisted && watcher();
  addEventListener('pageshow', shown);
  return () => removeEventListener('pageshow', shown);
}

export interface Reading {
  /** Read, or once more after the read in progress. */
  ask: () => void;
  end: () => void;
}

/** Return what reads when it is asked to. A failure is told, and the read repeated until it succeeds or the failure is lasting. */
export function reading<Value>(
  read: (signal: AbortSignal) => Promise<Value>,
  done: (value: Value) => void,
  failed: (failure: unknown) => void,
): Reading {
  const ending = new AbortController();
  let isWanted = false;
  let isReading = false;
  const run = async () => {
    let pause = FIRST_PAUSE_MS;
    while (isWanted && !ending.signal.aborted) {
      isWanted = false;
      try {
        const value = await read(ending.signal);
        pause = FIRST_PAUSE_MS;
        if (!ending.signal.aborted) done(value);
      } catch (failure) {
        if (ending.signal.aborted) return;
        failed(failure);
        if (isLasting(failure)) continue;
        isWanted = true;
        await recovered(pause, ending.signal);
        pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
      }
    }
    isReading = false;
  };
  const ask = () => {
    isWanted = true;
    if (isReading) return;
    isReading = true;
    void run();
  };
  return { ask, end: () => ending.abort() };
}
