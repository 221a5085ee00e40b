/** What several pages show in the same way. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { messageOf } from './api.js';

/** The status of a refinement or batch, as a word with a colour. */
export function Status({ of }: { of: string }) {
  return <span class={`status ${of}`}>{of}</span>;
}

export const scoreText = (score: number | null | undefined): string => (score == null ? '–' : score.toFixed(2));

export const costText = (usd: number | null | undefined): string =>
  usd == null ? 'unknown cost' : usd === 0 ? '$0' : usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;

export function secondsText(seconds: number): string {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });
const SPANS: [number, Intl.RelativeTimeFormatUnit][] = [
  [86_400, 'day'],
  [3_600, 'hour'],
  [60, 'minute'],
  [1, 'second'],
];

/** How long ago, or in how long; the exact time on hover and for screen readers. */
export function When({ at }: { at: string }) {
  const seconds = (Date.parse(at) - Date.now()) / 1000;
  const [size, unit] = SPANS.find(([it]) => Math.abs(seconds) >= it) ?? [1, 'second'];
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {RELATIVE.format(Math.round(seconds / size), unit)}
    </time>
  );
}

/** A failure, announced to screen readers. */
export function Failure({ of, children }: { of: unknown; children?: ComponentChildren }) {
  return (
    <div class="failure" role="alert">
      <p>{messageOf(of)}</p>
      {children}
    </div>
  );
}

export function Loading({ what = 'Loading' }: { what?: string }) {
  return (
    <p class="quiet" role="status">
      {what}…
    </p>
  );
}

/** What a function returned last, called again when `keys` change; the last value stays meanwhile. */
export function useLoaded<Value>(
  load: (signal: AbortSignal) => Promise<Value>,
  keys: unknown[],
): { value?: Value; failure?: unknown; reload: () => void } {
  const [state, setState] = useState<{ value?: Value; failure?: unknown }>({});
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const ending = new AbortController();
    load(ending.signal).then(
      (value) => !ending.signal.aborted && setState({ value }),
      (failure: unknown) => !ending.signal.aborted && setState((it) => ({ ...it, failure })),
    );
    return () => ending.abort();
  }, [...keys, turn]);
  return { ...state, reload: () => setTurn((it) => it + 1) };
}
