/** The drafts of a refinement: how each was judged, what changed between any two, and where the problems are. */
import type { schema } from 'hone';
import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { readDraft } from './api.js';
import { difference, type Hunk, offsetsOf, type Word } from './differences.js';
import { FOLDED, KEPT, Same, visible } from './marks.js';
import { Copy, costText, download, Failure, Loading, Name, scoreText, Text, useLoaded } from './parts.js';
import type { View } from './refinement.js';
import { setQuery, useRoute } from './router.js';
import { useShortcuts, walk } from './shortcuts.js';

type Draft = schema.IterationList['data'][number];
type Issue = NonNullable<Draft['issues']>[number];

const STATES = ['new', 'carried', 'returned', 'resolved'] as const;

export function Drafts({ id, snapshot, drafts: { value, failure } }: View) {
  const { query } = useRoute();
  if (!value) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  const drafts = value.data;
  if (!drafts.length) return <p class="quiet">No draft was judged yet.</p>;
  const at = (path: string | null) => drafts.find((it) => it.path === path);
  const to = at(query.get('to')) ?? at(snapshot.best?.path ?? null) ?? (drafts.at(-1) as Draft);
  const from = at(query.get('from')) ?? at(to.parent) ?? drafts.find((it) => it !== to);
  return (
    <>
      <Table drafts={drafts} best={snapshot.best?.path} shown={to} />
      <div class="filters">
        <Choice name="from" title="Difference from" drafts={drafts} chosen={from} />
        <Choice name="to" title="to" drafts={drafts} chosen={to} />
      </div>
      <Texts id={id} from={from} to={to} />
    </>
  );
}

/** The texts of the drafts that were chosen; those of others are not kept. */
function Texts({ id, from, to }: { id: string; from: Draft | undefined; to: Draft }) {
  const before = useText(id, from);
  const after = useText(id, to);
  const failure = before.failure ?? after.failure;
  return (
    <>
      {failure !== undefined && <Failure of={failure} />}
      {!from || from === to ? (
        <p class="quiet">Choose two drafts to see what changed.</p>
      ) : before.value && after.value ? (
        <Difference key={`${from.sha256} ${to.sha256}`} from={before.value} to={after.value} />
      ) : (
        <Loading what="Loading the drafts" />
      )}
      {after.value && <Judgement key={to.path} of={after.value} id={id} />}
    </>
  );
}

/** A draft with its whole text, of which the list has the beginning. */
function useText(id: string, of: Draft | undefined): { value?: Draft; failure?: unknown } {
  const { value, failure } = useLoaded(
    (signal) => (of ? readDraft(id, of.path, signal) : Promise.resolve(undefined)),
    [of?.path, of?.sha256],
  );
  return { ...(value && value.path === of?.path && value.sha256 === of.sha256 ? { value } : {}), failure };
}

interface Chosen {
  name: string;
  title: string;
  drafts: Draft[];
  chosen: Draft | undefined;
}

function Choice({ name, title, drafts, chosen }: Chosen) {
  return (
    <label>
      {title}
      <select value={chosen?.path ?? ''} onChange={(event) => setQuery({ [name]: event.currentTarget.value })}>
        {drafts.map((it) => (
          <option value={it.path}>{nameOf(it)}</option>
        ))}
      </select>
    </label>
  );
}

const nameOf = (draft: Draft): string =>
  `${draft.path}${draft.path === 'iterations/0' ? ' (yours)' : ''}, ${scoreText(draft.score)}`;

/** One row a draft, with its score for each criterion. */
function Table({ drafts, best, shown }: { drafts: Draft[]; best: string | undefined; shown: Draft }) {
  const criteria = [...new Set(drafts.flatMap((it) => it.scores.map((score) => score.criterion)))];
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="Drafts and their scores">
      <table class="rows listing">
        <thead>
          <tr>
            <th>Draft</th>
            <th>Score</th>
            {criteria.map((it) => (
              <th>
                <Name of={it} />
              </th>
            ))}
            <th>Problems</th>
            <th>Cost</th>
          </tr>
        </thead>
        <tbody>
          {drafts.map((it) => (
            <tr key={it.path} class={it === shown ? 'chosen' : ''}>
              <td>
                <button class="link" aria-pressed={it === shown} onClick={() => setQuery({ to: it.path, from: it.parent ?? '' })}>
                  {it.path}
                </button>
                {it.path === best && ' (best)'}
              </td>
              <td data-name="Score">{scoreText(it.score)}</td>
              {criteria.map((name) => (
                <td data-name={name}>{scoreText(it.scores.find((score) => score.criterion === name)?.score)}</td>
              ))}
              <td data-name="Problems">{problemsOf(it)}</td>
              <td data-name="Cost">{costText(it.usage.cost_usd)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function problemsOf(draft: Draft): string {
  const issues = draft.issues ?? [];
  const counts = STATES.map((state) => [issues.filter((it) => it.state === state).length, state] as const);
  return counts.filter(([count]) => count).map(([count, state]) => `${count} ${state}`).join(', ') || 'none';
}

/** What changed, word by word: in one column or side by side. `n` and `p` go from change to change. */
function Difference({ from, to }: { from: Draft; to: Draft }) {
  const [hunks, setHunks] = useState<Hunk[]>();
  const [isSplit, setSplit] = useState(() => innerWidth > 900);
  const [said, setSaid] = useState('');
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const ending = new AbortController();
    void difference(from.draft, to.draft, ending.signal).then((found) => ending.signal.aborted || setHunks(found));
    return () => ending.abort();
  }, []);
  const go = (step: 1 | -1) => {
    const changes = [...(box.current?.querySelectorAll<HTMLElement>('[data-change]') ?? [])];
    const at = walk(changes, step);
    setSaid(at < 0 ? 'No changes.' : `Change ${at + 1} of ${changes.length}`);
  };
  useShortcuts((key) => {
    if (key === 'n') go(1);
    if (key === 'p') go(-1);
    return key === 'n' || key === 'p';
  });
  const changes = hunks?.filter((it) => !it.isSame).length ?? 0;
  return (
    <section>
      <h2>
        From {from.path} to {to.path}
      </h2>
      <p class="actions">
        <button aria-pressed={isSplit} onClick={() => setSplit(true)}>
          Side by side
        </button>
        <button aria-pressed={!isSplit} onClick={() => setSplit(false)}>
          In one column
        </button>
        <button onClick={() => go(-1)} disabled={!changes} aria-keyshortcuts="p">
          Previous change
        </button>
        <button onClick={() => go(1)} disabled={!changes} aria-keyshortcuts="n">
          Next change
        </button>
        <span role="status" class="quiet">
          {said || (hunks ? `${changes} ${changes === 1 ? 'place' : 'places'} changed` : 'Comparing…')}
        </span>
      </p>
      {hunks && (
        <div ref={box} class={isSplit ? 'difference split' : 'difference'}>
          <Hunks key={`${isSplit}`} of={hunks} isSplit={isSplit} />
        </div>
      )}
    </section>
  );
}

const SHOWN_HUNKS = 400;
const DRAWN_AT_ONCE = 20;

/** The hunks, drawn a few at a time, and of very many the first. */
function Hunks({ of, isSplit }: { of: Hunk[]; isSplit: boolean }) {
  const [most, setMost] = useState(SHOWN_HUNKS);
  const [drawn, setDrawn] = useState(DRAWN_AT_ONCE);
  const shown = Math.min(most, of.length);
  useEffect(() => {
    if (drawn >= shown) return;
    const timer = setTimeout(() => setDrawn(drawn + DRAWN_AT_ONCE));
    return () => clearTimeout(timer);
  }, [drawn, shown]);
  const nodes = useRef<VNode[]>([]); // what was drawn is not looked at again
  for (let at = nodes.current.length; at < Math.min(drawn, shown); at++)
    nodes.current.push(<OneHunk key={at} of={of[at] as Hunk} isSplit={isSplit} isFirst={at === 0} isLast={at === of.length - 1} />);
  return (
    <>
      {[...nodes.current]}
      {of.length > most && <button onClick={() => setMost(most + SHOWN_HUNKS)}>Show {of.length - most} more passages</button>}
    </>
  );
}

function OneHunk({ of, isSplit, isFirst, isLast }: { of: Hunk; isSplit: boolean; isFirst: boolean; isLast: boolean }) {
  if (of.isSame) return <Unchanged text={of.words[0]?.text ?? ''} isFirst={isFirst} isLast={isLast} />;
  return (
    <div class="changed" data-change tabIndex={-1}>
      {isSplit ? (
        <>
          <Words of={of.words} without="added" />
          <Words of={of.words} without="removed" />
        </>
      ) : (
        <Words of={of.words} />
      )}
    </div>
  );
}

/** Unchanged lines; of many only those next to a change. */
function Unchanged({ text, isFirst, isLast }: { text: string; isFirst: boolean; isLast: boolean }) {
  const [isOpen, setOpen] = useState(text.length <= FOLDED);
  if (isOpen) return <pre class="unchanged">{text}</pre>;
  const head = isFirst ? '' : text.slice(0, KEPT);
  const tail = isLast ? '' : text.slice(-KEPT);
  const hidden = text.length - head.length - tail.length;
  return (
    <div class="unchanged">
      {head && <pre>{head}</pre>}
      <button class="fold" onClick={() => setOpen(true)}>
        … {hidden.toLocaleString('en')} unchanged characters
      </button>
      {tail && <pre>{tail}</pre>}
    </div>
  );
}

function Words({ of, without }: { of: Word[]; without?: Word['change'] }) {
  return (
    <pre>
      {of.map((it) => {
        if (it.change === without) return null;
        if (it.change === 'added') return <ins>{visible(it.text)}</ins>;
        return it.change === 'removed' ? <del>{visible(it.text)}</del> : <Same text={it.text} />;
      })}
    </pre>
  );
}

/** What was said of a draft, and where. */
function Judgement({ of, id }: { of: Draft; id: string }) {
  const problems = useMemo(() => of.issues ?? [], [of]);
  const open = problems.filter((it) => it.state !== 'resolved');
  return (
    <section>
      <h2>{of.path}</h2>
      <p class="actions">
        <Copy text={of.draft} label="Copy the text" />
        <button onClick={() => download(`${id}-${of.path.replaceAll('/', '-')}.txt`, [of.draft], 'text/plain')}>Download</button>
      </p>
      <div class="judgement">
        <Marked text={of.draft} problems={open} />
        <div>
          {of.scores.map((it) => (
            <p>
              <strong>
                <Name of={it.criterion} /> {scoreText(it.score)}
              </strong>{' '}
              <Name of={it.reason} />
            </p>
          ))}
          <Problems of={problems} />
          <Remarks title="Strengths" of={of.strengths} />
          <Remarks title="Weaknesses" of={of.weaknesses} />
          <Remarks title="Suggestions" of={of.suggestions} />
          <Remarks title="Asked to change" of={of.asked} />
        </div>
      </div>
    </section>
  );
}

/** A text in which problems that have a place are marked; a mark leads to its problem. */
function Marked({ text, problems }: { text: string; problems: Issue[] }) {
  const pieces = useMemo(() => piecesOf(text, problems), [text, problems]);
  const draw = (shown: string) => {
    let at = 0;
    return pieces.map((it) => {
      const part = it.text.slice(0, Math.max(0, shown.length - at));
      at += it.text.length;
      if (it.problem === null || !part) return part;
      return (
        <mark title={problems[it.problem]?.message}>
          {part}
          <sup>{it.problem + 1}</sup>
        </mark>
      );
    });
  };
  return (
    <div>
      <Text of={text} draw={draw} />
    </div>
  );
}

interface Piece {
  text: string;
  problem: number | null;
}

/** Cut a text at the places of problems; of two that overlap the first is marked. */
function piecesOf(text: string, problems: Issue[]): Piece[] {
  const offsets = offsetsOf(text, problems.flatMap((it) => (it.span ? [it.span.start, it.span.end] : [])));
  const places = problems
    .map((it, problem) => ({ problem, start: offsets.get(it.span?.start ?? -1) ?? -1, end: offsets.get(it.span?.end ?? -1) ?? -1 }))
    .filter((it) => it.end > it.start && it.start >= 0)
    .sort((one, other) => one.start - other.start);
  const pieces: Piece[] = [];
  let at = 0;
  for (const { problem, start, end } of places) {
    if (start < at) continue;
    pieces.push({ text: text.slice(at, start), problem: null }, { text: text.slice(start, end), problem });
    at = end;
  }
  return [...pieces, { text: text.slice(at), problem: null }];
}

const SHOWN_PROBLEMS = 20;

function Problems({ of }: { of: Issue[] }) {
  const [most, setMost] = useState(SHOWN_PROBLEMS);
  if (!of.length) return null;
  const ordered = [...of.filter((it) => it.state !== 'resolved'), ...of.filter((it) => it.state === 'resolved')];
  return (
    <>
      <h3>Problems</h3>
      <ol>
        {ordered.slice(0, most).map((it) => (
          <li key={it.id}>
            <span class={`state ${it.state}`}>{it.state}</span> {it.kind}: <Name of={it.message} />
            {it.quote && (
              <q>
                <Name of={it.quote} />
              </q>
            )}
            {it.fix && (
              <span class="quiet">
                {' '}
                <Name of={it.fix} />
              </span>
            )}
            {it.state !== 'new' && <span class="quiet"> since {it.since}</span>}
          </li>
        ))}
      </ol>
      {ordered.length > most && <button onClick={() => setMost(ordered.length)}>Show {ordered.length - most} more</button>}
    </>
  );
}

function Remarks({ title, of }: { title: string; of: string[] }) {
  if (!of.length) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul>
        {of.map((it) => (
          <li>
            <Name of={it} />
          </li>
        ))}
      </ul>
    </>
  );
}
