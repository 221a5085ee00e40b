/** One refinement as it goes on: its snapshot, its events, and the texts that are being written. */
import { ApiError, type DeltaEvent, type Event, type Snapshot } from 'hone';
import { useEffect, useRef, useState } from 'preact/hooks';
import { hone, watchConnection } from './api.js';
import { offsetsOf } from './differences.js';
import { isLasting, reading, recovered, watchReturns } from './reading.js';

export type Journaled = Exclude<Event, DeltaEvent>;
const isDelta = (event: Event): event is DeltaEvent => event.type === 'step.delta';

export interface Live {
  snapshot?: Snapshot;
  /** Everything that happened so far, in order. Of long texts they have the beginning. */
  events: Journaled[];
  /** The texts that models are writing now, by step key. */
  texts: Map<string, string>;
  /** The time of the last event in milliseconds, by the clock of the server. */
  latest: number;
  /** How often it was retried. */
  retries: number;
  /** Whether all events that there were at first are known. */
  isCaughtUp: boolean;
  failure?: unknown;
  /** Read the snapshot again, after something was done to it. */
  refresh: () => void;
}

const SHOWN_EVERY_MS = 100;
const LOOKED_AGAIN_MS = 5_000;

/** Return how many code points a text has: the server counts these, strings count UTF-16 units. */
function pointsIn(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length - 1; at++) if ((text.codePointAt(at) ?? 0) > 0xffff) count--;
  return count;
}

/** Follow a refinement until the component leaves. A retry or a new decision is followed too. */
export function useRefinement(id: string): Live {
  const [, show] = useState(0);
  const live = useRef<Live>({ events: [], texts: new Map(), latest: 0, retries: 0, isCaughtUp: false, refresh: () => undefined });
  useEffect(() => {
    const ending = new AbortController();
    const state = live.current;
    let last = 0; // the number of the last event that is known
    const draw = () => {
      state.isCaughtUp ||= state.snapshot !== undefined && last >= state.snapshot.last_event;
      show((it) => it + 1);
    };
    const read = async (signal: AbortSignal) => {
      const seen = state.snapshot && `"${state.snapshot.last_event}"`;
      return hone.request<Snapshot | null>(`/v1/refinements/${id}`, { headers: { 'If-None-Match': seen }, signal });
    };
    const snapshot = reading(
      read,
      (now) => {
        // A text that is not stored is sent once: it stays on the page. Without an answer all is as it was.
        if (now) state.snapshot = now.erased_at && state.snapshot?.result ? { ...now, result: state.snapshot.result } : now;
        state.failure = undefined;
        goesOn();
        draw();
      },
      (failure) => {
        state.failure = failure;
        draw();
      },
    );
    let timer: ReturnType<typeof setTimeout> | undefined;
    let needsReading = false;
    // Many events arrive at once: the page is drawn, and the snapshot read, a few times a second.
    const changed = (isRead: boolean) => {
      needsReading ||= isRead;
      timer ??= setTimeout(() => {
        timer = undefined;
        if (needsReading) snapshot.ask();
        else draw();
        needsReading = false;
      }, SHOWN_EVERY_MS);
    };
    const follow = async () => {
      let after = 0;
      const lengths = new Map<string, number>();
      while (!ending.signal.aborted) {
        for await (const event of eventsFrom(() => after)) {
          if (isDelta(event)) {
            const { key, offset, text } = event.data;
            const known = state.texts.get(key) ?? '';
            state.texts.set(key, (offset === lengths.get(key) ? known : known.slice(0, offsetsOf(known, [offset]).get(offset))) + text);
            lengths.set(key, offset + pointsIn(text));
            changed(false);
            continue;
          }
          after = last = event.event;
          state.events.push(event);
          state.latest = Date.parse(event.at);
          if (event.type === 'refinement.retried') state.retries++;
          const data = event.data as { key?: string };
          if (data.key) state.texts.delete(data.key);
          changed(event.event > (state.snapshot?.last_event ?? 0)); // the snapshot knows of what was before it
        }
        await ended(after);
      }
    };
    let stream = new AbortController();
    /** Yield the events to come; where the server is away or the session has ended, those after that too. */
    async function* eventsFrom(after: () => number) {
      while (!ending.signal.aborted) {
        stream = new AbortController();
        const signal = AbortSignal.any([ending.signal, stream.signal]);
        try {
          return yield* hone.events(id, { after: after(), deltas: true, excerpts: true, signal });
        } catch (failure) {
          if (ending.signal.aborted) throw failure;
          if (stream.signal.aborted) continue;
          if (isLasting(failure)) throw failure;
          await recovered(LOOKED_AGAIN_MS, ending.signal);
          changed(true);
        }
      }
    }
    let goesOn: () => void = () => undefined;
    /** Return once a refinement that had ended goes on. */
    const ended = async (after: number) => {
      state.texts.clear();
      const looks = setInterval(() => document.hidden || snapshot.ask(), LOOKED_AGAIN_MS);
      await new Promise<void>((done) => {
        goesOn = () => (state.snapshot?.last_event ?? 0) > after && done();
        ending.signal.addEventListener('abort', () => done());
        changed(true); // it may go on already, after a retry
      });
      clearInterval(looks);
    };
    const again = () => {
      stream.abort(); // the connection may be of long ago
      changed(true);
    };
    state.refresh = () => changed(true);
    snapshot.ask();
    follow().catch((failure: unknown) => {
      if (ending.signal.aborted) return;
      if (!(failure instanceof ApiError && failure.status === 404 && state.snapshot === undefined)) state.failure = failure;
      draw();
    });
    const left = [watchReturns(again), watchConnection((now) => now === 'there' && again())];
    return () => {
      for (const leave of left) leave();
      snapshot.end();
      ending.abort();
    };
  }, [id]);
  return live.current;
}
