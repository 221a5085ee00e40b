/** The tree of stages, parts, iterations and steps as a time line. */
import { useRef, useState } from 'preact/hooks';
import type { Journaled, Live } from './live.js';
import { Name, scoreText, secondsText, useNow } from './parts.js';


export type SpanKind = 'work' | 'wait' | 'pause' | 'queue' | 'idle';

/** Something that lasted; without an end it still goes on. Times are in milliseconds. */
export interface Span {
  kind: SpanKind;
  start: number;
  end?: number | undefined;
}

export interface Node {
  /** Empty for the whole. */
  path: string;
  name: string;
  children: Node[];
  /** Its own spans: those of a step, or of the whole. */
  spans: Span[];
  failed?: string;
  score?: number | null;
  model?: string;
}

/** Names that go with the part after them: `iterations/2` is one level of the tree. */
const PAIRED = new Set(['iterations', 'stages', 'parts', 'passes', 'reviews', 'steps', 'samples', 'again', 'confirm']);

const namesOf = (path: string): string[] => {
  const parts = path.split('/');
  const names: string[] = [];
  for (let at = 0; at < parts.length; at++) {
    const name = parts[at] ?? '';
    names.push(PAIRED.has(name) && at + 1 < parts.length ? `${name}/${parts[++at]}` : name);
  }
  return names;
};

/** Reads events one after the other, each once. */
export class Timeline {
  readonly root: Node = { path: '', name: 'The whole', children: [], spans: [] };
  readonly #nodes = new Map<string, Node>([['', this.root]]);
  readonly #open = new Map<string, Span>();
  #read = 0;

  /** Read the events that were added since. */
  readAll(events: Journaled[]): this {
    for (; this.#read < events.length; this.#read++) this.#add(events[this.#read] as Journaled);
    return this;
  }

  #add(event: Journaled): void {
    const at = Date.parse(event.at);
    switch (event.type) {
      case 'refinement.queued':
      case 'refinement.retried':
        return this.#whole('queue', at);
      case 'refinement.started':
      case 'refinement.resumed':
        for (const key of this.#open.keys()) this.#close(key, at);
        return this.#whole('work', at);
      case 'step.started':
        return this.#begun(event.data.next, at);
      case 'step.completed':
      case 'step.failed': {
        const { key } = event.data;
        const node = this.#node(key);
        if (!this.#open.has(key)) this.#begin(key, 'work', at - 1_000 * (event.data.usage.seconds ?? 0));
        this.#close(key, at);
        if (event.type === 'step.failed') node.failed = event.data.code;
        else delete node.failed;
        if (event.data.model) node.model = event.data.model;
        return this.#begun(event.data.next, at);
      }
      case 'step.waiting': {
        const { key } = event.data;
        this.#close(key, at);
        return this.#begin(key, 'wait', at);
      }
      case 'iteration.completed':
        this.#node(event.data.path).score = event.data.score;
        return;
      case 'refinement.paused':
        this.#begin(event.data.key, 'pause', at);
        return this.#whole('pause', at);
      case 'refinement.reviewed':
        this.#close(event.data.key, at);
        // Of several reviews side by side the others may be asked for still.
        if (![...this.#open.values()].some((it) => it.kind === 'pause')) this.#whole('queue', at);
        return;
      case 'refinement.completed':
      case 'refinement.failed':
      case 'refinement.canceled':
        for (const key of this.#open.keys()) this.#close(key, at);
        return this.#whole('idle', at);
    }
  }

  /** The steps in progress are these: those that are new have begun. */
  #begun(keys: string[], at: number): void {
    for (const key of keys) if (!this.#open.has(key)) this.#begin(key, 'work', at);
  }

  #begin(key: string, kind: SpanKind, start: number): void {
    if (this.#open.has(key)) return;
    const span: Span = { kind, start };
    this.#node(key).spans.push(span);
    this.#open.set(key, span);
  }

  #close(key: string, at: number): void {
    const span = this.#open.get(key);
    if (span) span.end = at;
    this.#open.delete(key);
  }

  /** The whole does something else from now on. */
  #whole(kind: SpanKind, at: number): void {
    const last = this.root.spans.at(-1);
    if (last && last.end === undefined) {
      if (last.kind === kind) return;
      last.end = at;
    }
    this.root.spans.push({ kind, start: at });
  }

  #node(path: string): Node {
    const known = this.#nodes.get(path);
    if (known) return known;
    const names = namesOf(path);
    const name = names.at(-1) ?? path;
    const parent = this.#node(names.slice(0, -1).join('/'));
    const node: Node = { path, name, children: [], spans: [] };
    parent.children.push(node);
    this.#nodes.set(path, node);
    return node;
  }
}

/** When a node and all below it began and ended; `now` stands for what goes on. */
export function extentOf(node: Node, now: number): { start: number; end: number; isOpen: boolean } {
  let [start, end, isOpen] = [Infinity, -Infinity, false];
  for (const it of node.spans) {
    if (it.kind === 'idle') continue;
    start = Math.min(start, it.start);
    end = Math.max(end, it.end ?? now);
    isOpen ||= it.end === undefined;
  }
  for (const child of node.children) {
    const inner = extentOf(child, now);
    start = Math.min(start, inner.start);
    end = Math.max(end, inner.end);
    isOpen ||= inner.isOpen;
  }
  return { start, end, isOpen };
}

const SHOWN_AT_MOST = 0.08;

/**
 * Return from which share of the width (0 to 1) a time is drawn. What lasted without work, such as a
 * weekend's pause, is drawn shortened if it would leave no room for the rest.
 */
export function scaleOf(root: Node, now: number): { at: (time: number) => number; isShortened: boolean } {
  const spans = root.spans
    .filter((it, index) => it.kind !== 'idle' || index < root.spans.length - 1)
    .map((it) => ({ ...it, end: it.end ?? now }));
  const lengthOf = (it: { start: number; end: number }) => Math.max(0, it.end - it.start);
  const worked = spans.reduce((sum, it) => sum + (it.kind === 'work' ? lengthOf(it) : 0), 0);
  let isShortened = false;
  const pieces: { start: number; end: number; from: number; width: number }[] = [];
  let from = 0;
  for (const it of spans) {
    const length = lengthOf(it);
    const most = worked > 0 && it.kind !== 'work' ? SHOWN_AT_MOST * worked : Infinity;
    isShortened ||= length > most;
    const width = Math.min(length, most);
    pieces.push({ start: it.start, end: it.end, from, width });
    from += width;
  }
  const total = from || 1;
  const at = (time: number) => {
    const piece = pieces.find((it) => time <= it.end) ?? pieces.at(-1);
    if (!piece) return 0;
    const length = piece.end - piece.start;
    const share = length > 0 ? Math.min(1, Math.max(0, (time - piece.start) / length)) : 0;
    return (piece.from + share * piece.width) / total;
  };
  return { at, isShortened };
}

const KINDS: Record<SpanKind, string> = {
  work: 'in progress',
  wait: 'waits for a model',
  pause: 'paused for a person',
  queue: 'queued',
  idle: 'ended',
};

const WORDS: Record<string, string> = {
  iterations: 'Iteration',
  stages: 'Stage',
  parts: 'Part',
  passes: 'Pass',
  reviews: 'Review',
  steps: 'Step',
  samples: 'Sample',
  again: 'asked again,',
  confirm: 'judged again,',
};

function titleOf(node: Node): string {
  const [kind = '', name] = node.name.split('/');
  return name === undefined ? node.name : `${WORDS[kind] ?? kind} ${name}`;
}

const FEW_ROWS = 40;

interface Row {
  node: Node;
  depth: number;
  isOpen: boolean;
}

const sizeOf = (node: Node): number => node.children.reduce((sum, it) => sum + sizeOf(it), 1);

/** A row for each step and what it belongs to; groups fold, and where there are many they are folded at first. */
export function TimelineView({ live, isGoing }: { live: Live; isGoing: boolean }) {
  const now = Math.max(useNow(isGoing), live.latest);
  const reader = useRef<Timeline>(undefined);
  reader.current ??= new Timeline();
  const { root } = reader.current.readAll(live.events);
  const [chosen, setChosen] = useState(new Map<string, boolean>());
  if (!root.spans.length) return null;
  const { at, isShortened } = scaleOf(root, now);
  const isSmall = sizeOf(root) <= FEW_ROWS;
  const rows: Row[] = [];
  const list = (node: Node, depth: number) => {
    const isUsual = isSmall || depth === 0 || extentOf(node, now).isOpen;
    const isOpen = node.children.length > 0 && (chosen.get(node.path) ?? isUsual);
    rows.push({ node, depth, isOpen });
    if (isOpen) for (const child of node.children) list(child, depth + 1);
  };
  list(root, 0);
  const groups = (isOpen: boolean) => () => {
    const all = new Map<string, boolean>();
    const add = (node: Node) => {
      if (node.path) all.set(node.path, isOpen);
      node.children.forEach(add);
    };
    add(root);
    setChosen(all);
  };
  return (
    <section class="timeline">
      <h2>Time line</h2>
      <p class="legend">
        <button onClick={groups(true)}>Unfold all</button> <button onClick={groups(false)}>Fold all</button>
        {(['work', 'wait', 'pause', 'queue'] as SpanKind[]).map((kind) => (
          <span>
            <i class={`bar ${kind}`} aria-hidden="true" /> {KINDS[kind]}
          </span>
        ))}
        {isShortened && <span class="quiet">Long queues and pauses are drawn shortened.</span>}
      </p>
      <table>
        <thead>
          <tr>
            <th>What</th>
            <th class="bars">When</th>
            <th class="number">How long</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ node, depth, isOpen }) => (
            <TimelineRow
              key={node.path}
              of={node}
              {...{ depth, isOpen, now, at }}
              toggle={() => setChosen(new Map(chosen).set(node.path, !isOpen))}
            />
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface Drawn {
  of: Node;
  depth: number;
  isOpen: boolean;
  now: number;
  at: (time: number) => number;
  toggle: () => void;
}

function TimelineRow({ of, depth, isOpen, now, at, toggle }: Drawn) {
  const { start, end, isOpen: isGoing } = extentOf(of, now);
  const isGroup = of.children.length > 0;
  const spans: Span[] = of.spans.length ? of.spans : [{ kind: 'work', start, end: isGoing ? undefined : end }];
  const last = of.spans.at(-1);
  return (
    <tr class={isGroup ? 'group' : undefined}>
      <td class="what" style={{ paddingLeft: `${0.9 * Math.min(depth, 6)}rem` }}>
        {isGroup ? (
          <button class="fold" aria-expanded={isOpen} onClick={toggle}>
            <Name of={titleOf(of)} />
          </button>
        ) : (
          <span class="leaf" title={of.path}>
            <Name of={titleOf(of)} />
          </span>
        )}
        {of.score !== undefined && <small> {scoreText(of.score)}</small>}
        {of.failed && <small class="bad"> failed: {of.failed}</small>}
      </td>
      <td class="bars" aria-hidden="true">
        <div class="track">
          {spans
            .filter((it) => it.kind !== 'idle')
            .map((it) => {
              const [from, to] = [at(it.start), at(it.end ?? now)];
              const kind = of.failed ? 'failed' : of.spans.length ? it.kind : 'whole';
              return (
                <i
                  class={`bar ${kind}`}
                  title={`${KINDS[it.kind]}: ${secondsText(((it.end ?? now) - it.start) / 1_000)}`}
                  style={{ left: `${100 * from}%`, width: `${100 * (to - from)}%` }}
                />
              );
            })}
        </div>
      </td>
      <td class="number">
        {secondsText(Math.max(0, end - start) / 1_000)}
        {isGoing && last?.kind && last.kind !== 'idle' && <small> {KINDS[last.kind]}</small>}
      </td>
    </tr>
  );
}
