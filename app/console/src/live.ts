/** One refinement as it goes on: its snapshot, its events, and the texts that are being written. */
import { ApiError, type DeltaEvent, type Event, type Snapshot } from 'hone';
import { useEffect, useRef, useState } from 'preact/hooks';
import { hone, watchConnection } from './api.js';
import { offsetsOf } from './differences.js';

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
  /** Which limit of time stopped it. */
  limit?: string | null | undefined;
  failure?: unknown;
  /** Read the snapshot again, after something was done to it. */
  refresh: () => void;
}

const SHOWN_EVERY_MS = 100;

/** Return how many code points a text has: the server counts these, strings count UTF-16 units. */
function pointsIn(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length - 1; at++) if ((text.codePointAt(at) ?? 0) > 0xffff) count--;
  return count;
}

/** Follow a refinement until the component leaves. A retry or a new decision is followed too. */
export function useRefinement(id: string): Live {
  const [, show] = useState(0);
  const live = useRef<Live>({ events: [], texts: new Map(), latest: 0, retries: 0, refresh: () => undefined });
  useEffect(() => {
    const ending = new AbortController();
    const state = live.current;
    let timer: ReturnType<typeof setTimeout> | undefined;
    // Many events arrive at once: the page is drawn, and the snapshot read, a few times a second.
    const changed = (isRead: boolean) => {
      needsReading ||= isRead;
      timer ??= setTimeout(async () => {
        timer = undefined;
        if (needsReading) await read();
        show((it) => it + 1);
      }, SHOWN_EVERY_MS);
    };
    let needsReading = false;
    const read = async () => {
      needsReading = false;
      try {
        const seen = state.snapshot && `"${state.snapshot.last_event}"`;
        const now = await hone.request<Snapshot | null>(`/v1/refinements/${id}`, { headers: { 'If-None-Match': seen } });
        if (now) state.snapshot = now; // else it is as it was
        state.failure = undefined;
      } catch (failure) {
        if (!ending.signal.aborted) state.failure = failure;
      }
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
          after = event.event;
          state.events.push(event);
          state.latest = Date.parse(event.at);
          if (event.type === 'refinement.retried') state.retries++;
          if (event.type === 'refinement.stopping') state.limit = event.data.limit;
          const data = event.data as { key?: string };
          if (data.key) state.texts.delete(data.key);
          changed(true);
        }
        await ended(after);
      }
    };
    /** Yield the events to come; where the server is away or the session has ended, those after that too. */
    async function* eventsFrom(after: () => number) {
      while (!ending.signal.aborted) {
        try {
          return yield* hone.events(id, { after: after(), deltas: true, excerpts: true, signal: ending.signal });
        } catch (failure) {
          const isLasting = failure instanceof ApiError && failure.status < 500 && failure.status !== 401;
          if (ending.signal.aborted || isLasting) throw failure;
          await connected();
        }
      }
    }
    /** Return once the server answers as ever, or after a while. */
    const connected = () =>
      new Promise<void>((done) => {
        const left = watchConnection((now) => now === 'there' && go());
        const timer = setTimeout(() => go(), 5_000);
        const go = () => {
          clearTimeout(timer);
          left();
          done();
          changed(true);
        };
      });
    /** Return once a refinement that had ended goes on. */
    const ended = async (after: number) => {
      state.texts.clear();
      await read(); // it may go on already, after a retry
      changed(false);
      while (!ending.signal.aborted && (state.snapshot?.last_event ?? 0) <= after) {
        await new Promise((done) => {
          wake = done;
          setTimeout(done, 5_000);
        });
        if (!document.hidden) await read();
      }
    };
    let wake: (value?: unknown) => void = () => undefined;
    state.refresh = () => {
      wake();
      changed(true);
    };
    read().then(() => show((it) => it + 1));
    follow().catch((failure: unknown) => {
      if (ending.signal.aborted) return;
      if (!(failure instanceof ApiError && failure.status === 404 && state.snapshot === undefined)) state.failure = failure;
      show((it) => it + 1);
    });
    return () => ending.abort();
  }, [id]);
  return live.current;
}
