/** What several pages show in the same way. */
import { ApiError } from 'hone';
import type { ComponentChildren, InputHTMLAttributes } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { messageOf, readToken } from './api.js';
import { type Reading, reading, watchReturns } from './reading.js';
import { hrefOf, Link } from './router.js';

/** A code of the server, such as `best_effort`, as words. */
export const words = (code: string | null): string => (code ?? '').replaceAll('_', ' ');

/** The status of a refinement or batch, or the outcome of what has ended, as a word with a colour. */
export function Status({ of }: { of: string }) {
  return <span class={`status ${of}`}>{words(of)}</span>;
}

const CONTROLS = /[\u202a-\u202e\u2066-\u2069]/g;

/** Show the characters that turn the direction of what follows as what they are. Marks (U+200E, U+200F) may stay: they turn nothing. */
export const turnless = (text: string): string =>
  text.replace(CONTROLS, (it) => `[U+${it.charCodeAt(0).toString(16).toUpperCase()}]`);

/** A name, or another short text of somebody, among other words: it reads in its own direction, and turns no other. */
export function Name({ of }: { of: string | null | undefined }) {
  return <bdi>{turnless(of ?? '')}</bdi>;
}

type CommittedInput = InputHTMLAttributes<HTMLInputElement> & {
  value: string;
  /** Called when the field is left, or Enter pressed. */
  commit: (text: string) => void;
};

/** A field that counts once it is complete; what is typed meanwhile stays, whatever is drawn again. */
export function Committed({ value, commit, ...attributes }: CommittedInput) {
  const [typed, setTyped] = useState<string>();
  return (
    <input
      {...attributes}
      value={typed ?? value}
      onInput={(event) => setTyped(event.currentTarget.value)}
      onChange={(event) => {
        setTyped(undefined);
        commit(event.currentTarget.value);
      }}
    />
  );
}

/** Names with commas between them. */
export function Names({ of }: { of: readonly string[] }) {
  return (
    <>
      {of.map((it, at) => (
        <>
          {at > 0 && ', '}
          <Name of={it} />
        </>
      ))}
    </>
  );
}

/** A score with two to four decimals, truncated: never rounded up to a threshold that was missed. */
export const scoreText = (score: number | null | undefined): string =>
  score == null ? '–' : (Math.trunc(score * 10_000 + 1e-6) / 10_000).toFixed(4).replace(/0{1,2}$/, '');

export const costText = (usd: number | null | undefined): string =>
  usd == null ? 'unknown cost' : usd === 0 ? '$0' : usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;

export function secondsText(seconds: number): string {
  if (seconds < 0.1) return `${Math.round(1_000 * seconds)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.round(whole / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A time as a field for a day and a time of day has it: in the time zone of the browser. */
export function localTime(value: unknown): string {
  if (typeof value !== 'string' || Number.isNaN(Date.parse(value))) return '';
  const at = new Date(value);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });
/** Seconds of each unit, and of the one below it: 59.7 s are a minute. */
const SPANS: [number, Intl.RelativeTimeFormatUnit, number][] = [
  [86_400, 'day', 3_600],
  [3_600, 'hour', 60],
  [60, 'minute', 1],
  [1, 'second', 1],
];

/** How long ago, or in how long; the exact time on hover and for screen readers. */
export function When({ at }: { at: string }) {
  const seconds = (Date.parse(at) - Date.now()) / 1000;
  const [size, unit] = SPANS.find(([it, , below]) => Math.round(Math.abs(seconds) / below) * below >= it) ?? [1, 'second'];
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {RELATIVE.format(Math.round(seconds / size), unit).replace('.', '')}
    </time>
  );
}

/** The time in milliseconds, every second while something goes on. */
export function useNow(isGoing: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!isGoing) return;
    setNow(Date.now());
    const timer = setInterval(() => document.hidden || setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [isGoing]);
  return now;
}

const FOLDED = 4_000;

interface Shown {
  of: string;
  /** Whether its end is shown if it is long: while it is being written. */
  isEnd?: boolean;
  /** Return what to draw of the text that is shown, such as the text with its marks. */
  draw?: (shown: string) => ComponentChildren;
}

/** A text as it is. A long one is folded: its beginning is shown. */
export function Text({ of, isEnd = false, draw = (it) => it }: Shown) {
  const [isWhole, setWhole] = useState(false);
  const isLong = of.length > FOLDED * 1.5;
  if (!isLong) return <pre class="text">{draw(of)}</pre>;
  const cut = isEnd ? of.slice(-FOLDED) : of.slice(0, FOLDED);
  // Half of a surrogate pair is no character.
  const shown = isWhole ? of : cut.replace(isEnd ? /^[\uDC00-\uDFFF]/ : /[\uD800-\uDBFF]$/, '');
  const left = (of.length - shown.length).toLocaleString('en');
  return (
    <div class="folded">
      {!isWhole && isEnd && <p class="quiet">… {left} characters before</p>}
      <pre class="text">{draw(shown)}</pre>
      {!isWhole && !isEnd && <p class="quiet">… {left} more characters</p>}
      <button onClick={() => setWhole(!isWhole)}>{isWhole ? 'Fold the text' : 'Show the whole text'}</button>
    </div>
  );
}

/** A button that copies a text. */
export function Copy({ text, label = 'Copy', isMain = false }: { text: string; label?: ComponentChildren; isMain?: boolean }) {
  const [said, setSaid] = useState('');
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    setSaid((await copied(text)) ? 'Copied' : 'The browser did not allow it');
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setSaid(''), 3_000);
  };
  return (
    <span class="copy">
      <button class={isMain ? 'main' : ''} onClick={copy}>
        {label}
      </button>{' '}
      <span role="status">{said}</span>
    </span>
  );
}

async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // The clipboard of `navigator` exists in secure contexts only, which http on a network is not.
    const field = document.createElement('textarea');
    field.value = text;
    document.body.append(field);
    const focused = document.activeElement;
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    if (focused instanceof HTMLElement) focused.focus();
    return done;
  }
}

/** Let the browser save a text as a file. */
export function download(name: string, parts: string[], type: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** A failure, announced to screen readers. */
export function Failure({ of, children }: { of: unknown; children?: ComponentChildren }) {
  return (
    <div class="failure" role="alert">
      <p>{messageOf(of)}</p>
      {of instanceof ApiError && of.status === 403 && !readToken && (
        <p>
          <Link href={hrefOf('keys')}>Keys, and what they may do</Link>
        </p>
      )}
      {children}
    </div>
  );
}

/** What has an id, and could not be read. */
export function Unread({ id, failure }: { id: string; failure: unknown }) {
  return (
    <>
      <h1>{id}</h1>
      <Failure of={failure} />
    </>
  );
}

export function Loading({ what = 'Loading' }: { what?: string }) {
  return (
    <p class="quiet" role="status">
      {what}…
    </p>
  );
}

/** What a function returned last, called again when `keys` change and after a failure that need not last; the last value stays meanwhile. */
export function useLoaded<Value>(
  load: (signal: AbortSignal) => Promise<Value>,
  keys: unknown[],
): { value?: Value; failure?: unknown; reload: () => void; repeat: () => void } {
  const [state, setState] = useState<{ value?: Value; failure?: unknown }>({});
  const current = useRef<Reading>(undefined);
  useEffect(() => {
    const reads = reading(
      load,
      (value) => setState({ value }),
      (failure) => setState((it) => ({ ...it, failure })),
    );
    current.current = reads;
    reads.ask();
    const unwatch = watchReturns(reads.ask);
    return () => {
      unwatch();
      reads.end();
    };
  }, keys);
  return { ...state, reload: () => current.current?.ask(), repeat: () => current.current?.repeat() };
}

const REPEATED_MS = 2_000;

/** Call a function every two seconds while the page is seen. */
export function useRepeated(call: () => void): void {
  const latest = useRef(call);
  latest.current = call;
  useEffect(() => {
    const timer = setInterval(() => document.hidden || latest.current(), REPEATED_MS);
    return () => clearInterval(timer);
  }, []);
}

/** A draft that was given. */
export type Given = string | Record<string, unknown> | null;

/** The text of a draft that was given; that of an object as the server has it. */
export const textOf = (given: Given | undefined) =>
  typeof given === 'object' && given ? JSON.stringify(given, null, 2) : (given ?? null);

/** Return a text as it was edited: a field has LF alone, and a text whose line ends are all CR LF gets them back. */
export const withLineEndsOf = (before: string, edited: string): string =>
  before.includes('\r\n') && !/(^|[^\r])\n/.test(before) ? edited.replace(/\r?\n/g, '\r\n') : edited;

/** The width of an element in pixels, as it changes. */
export function useWidth(of: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(640);
  useEffect(() => {
    const seen = of.current;
    if (!seen) return;
    const observer = new ResizeObserver(([it]) => it && setWidth(Math.floor(it.contentRect.width)));
    observer.observe(seen);
    setWidth(seen.clientWidth);
    return () => observer.disconnect();
  }, []);
  return width;
}

interface Named {
  name: string;
  note?: ComponentChildren;
  children: ComponentChildren;
}

/** A figure and its name, in a list of them (`facts`). */
export function Fact({ name, note, children }: Named) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {children}
        {note && <small class="note">{note}</small>}
      </dd>
    </div>
  );
}

interface Chosen {
  label: string;
  of: [string, string][];
  chosen: string | undefined;
  choose: (name: string) => void;
}

/** Buttons of which one is chosen. */
export function Choices({ label, of, chosen, choose }: Chosen) {
  return (
    <div class="views" role="group" aria-label={label}>
      {of.map(([value, name]) => (
        <button aria-pressed={value === chosen} onClick={() => choose(value)}>
          {name}
        </button>
      ))}
    </div>
  );
}
