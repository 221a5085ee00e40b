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
  /** Read again, unless it reads now or has just done so: a slow connection is left to other reads most of the time. */
  repeat: () => void;
  end: () => void;
}

const RESTS = 4;

/** Return what reads when it is asked to. A failure is told, and the read repeated until it succeeds or the failure is lasting. */
export function reading<Value>(
  read: (signal: AbortSignal) => Promise<Value>,
  done: (value: Value) => void,
  failed: (failure: unknown) => void,
): Reading {
  const ending = new AbortController();
  let isWanted = false;
  let isReading = false;
  let rested = 0; // until when it rests after its last read
  const run = async () => {
    let pause = FIRST_PAUSE_MS;
    while (isWanted && !ending.signal.aborted) {
      isWanted = false;
      const began = performance.now();
      try {
        const value = await read(ending.signal);
        pause = FIRST_PAUSE_MS;
        const now = performance.now();
        rested = now + RESTS * (now - began);
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
  const repeat = () => isReading || performance.now() < rested || ask();
  return { ask, repeat, end: () => ending.abort() };
}
