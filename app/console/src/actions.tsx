/** Commands to a refinement: those that its status, and the scopes of the session, allow. */
import type { schema, Snapshot } from 'hone';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { hone, mayDecide, readToken, type Session } from './api.js';
import { Ask, Dialog } from './dialog.js';
import type { Live } from './live.js';
import { Copy, Failure, scoreText } from './parts.js';
import { readObject } from './review.js';
import { hrefOf, Link, navigate, useRoute } from './router.js';
import { areKeysOff, goTo, switchKeysOff, useShortcuts } from './shortcuts.js';

/** What every command is given. */
interface Commanded {
  snapshot: Snapshot;
  live: Live;
  done: (said: string) => void;
  close: () => void;
}

interface Command {
  name: string;
  /** The key that does it while no field has the focus. */
  shortcut?: string;
  isDanger?: boolean;
  scope: string;
  isPossible: (of: Snapshot, isEnded: boolean) => boolean;
  dialog: (of: Commanded) => ComponentChildren;
}

const ENDED = ['succeeded', 'failed', 'canceled'];
const isChangeable = (of: Snapshot): boolean => ['queued', 'running', 'paused'].includes(of.status);
const hasDraft = (of: Snapshot): boolean => !of.erased_at && (of.best !== null || of.result !== null);

const COMMANDS: Command[] = [
  {
    name: 'Pause',
    shortcut: 'z',
    scope: 'submit',
    isPossible: (of) => ['queued', 'running'].includes(of.status),
    dialog: (of) => <PauseDialog {...of} />,
  },
  {
    name: 'Finish now',
    shortcut: 'f',
    scope: 'submit',
    isPossible: isChangeable,
    dialog: (of) => <FinishDialog {...of} />,
  },
  {
    name: 'Change limits',
    shortcut: 'l',
    scope: 'submit',
    isPossible: isChangeable,
    dialog: (of) => <LimitsDialog {...of} />,
  },
  {
    name: 'Cancel',
    scope: 'submit',
    isDanger: true,
    isPossible: isChangeable,
    dialog: (of) => <CancelDialog {...of} />,
  },
  {
    name: 'Retry',
    shortcut: 't',
    scope: 'submit',
    isPossible: (of) => of.status === 'failed' && !of.erased_at,
    dialog: (of) => <LimitsDialog {...of} isRetry />,
  },
  {
    name: 'Continue',
    shortcut: 'c',
    scope: 'submit',
    isPossible: (of, isEnded) => isEnded && hasDraft(of),
    dialog: (of) => <ContinueDialog {...of} />,
  },
  {
    name: 'Rate a draft',
    shortcut: 's',
    scope: 'review',
    isPossible: hasDraft,
    dialog: (of) => <RateDialog {...of} />,
  },
  { name: 'Read link', scope: 'read', isPossible: () => !readToken, dialog: (of) => <LinkDialog {...of} /> },
];

/** The keys that lead into an open review: the elements have them as `data-key`. */
const REVIEW_KEYS: [string, string][] = [
  ['a', 'go to “Approve” (Enter approves)'],
  ['r', 'write what to change'],
  ['m', 'write a remark on the passage that is selected'],
  ['e', 'edit the draft, or the arguments of the call'],
  ['x', 'go to “Reject”'],
];

const CHANGES_KEYS: [string, string][] = [
  ['n', 'next change'],
  ['p', 'previous change'],
];
const TEXT_KEYS: [string, string][] = [
  ['Enter', 'accept the change that has the focus'],
  ['Backspace', 'undo it'],
];

interface Steered {
  snapshot: Snapshot;
  live: Live;
  session: Session;
  say: (said: string) => void;
}

export function Actions({ snapshot, live, session, say }: Steered) {
  const [open, setOpen] = useState<string>();
  const part = useRoute().path[2] ?? 'overview';
  const isEnded = ENDED.includes(snapshot.status);
  const possible = COMMANDS.filter((it) => session.scopes.includes(it.scope) && it.isPossible(snapshot, isEnded));
  const isReviewer = session.scopes.includes('review') && (snapshot.reviews ?? []).some((it) => mayDecide(session, it.reviewers ?? []));
  const reviewKeys = isReviewer ? REVIEW_KEYS : [];
  const shortcuts = new Map(possible.flatMap((it) => (it.shortcut ? [[it.shortcut, it.name] as const] : [])));
  useShortcuts((key) => {
    const name = key === '?' ? key : shortcuts.get(key);
    if (name) setOpen(name);
    return Boolean(name) || (reviewKeys.some(([it]) => it === key) && goTo(key));
  });
  const close = () => setOpen(undefined);
  const done = (said: string) => {
    say(said);
    live.refresh();
  };
  // A dialog that is open stays, whatever the status becomes: the service says what is not possible any more.
  const chosen = COMMANDS.find((it) => it.name === open);
  return (
    <section class="actions" aria-label="Actions">
      {possible.map((it) => (
        <button
          key={it.name}
          class={it.isDanger ? 'danger' : ''}
          aria-haspopup="dialog"
          aria-keyshortcuts={it.shortcut}
          onClick={() => setOpen(it.name)}
        >
          {it.name}…
        </button>
      ))}
      {session.scopes.includes('submit') && !snapshot.erased_at && (
        <Link href={`${hrefOf('new')}?from=${encodeURIComponent(snapshot.id)}`}>Submit again with changes</Link>
      )}
      <button aria-haspopup="dialog" aria-label="Keyboard shortcuts" aria-keyshortcuts="?" onClick={() => setOpen('?')}>
        ?
      </button>
      {chosen?.dialog({ snapshot, live, done, close })}
      {open === '?' && <ShortcutsDialog of={[...reviewKeys, ...shortcuts, ...(['overview', 'drafts'].includes(part) ? CHANGES_KEYS : []), ...(part === 'overview' && isEnded ? TEXT_KEYS : [])]} close={close} />}
    </section>
  );
}

/** The way to erase a refinement: it stands away from the everyday commands. */
export function EraseButton({ snapshot }: { snapshot: Snapshot }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button class="link" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        Erase…
      </button>
      {isOpen && <EraseDialog snapshot={snapshot} close={() => setOpen(false)} />}
    </>
  );
}

function ShortcutsDialog({ of, close }: { of: [string, string][]; close: () => void }) {
  const [isOff, setOff] = useState(areKeysOff);
  const change = (next: boolean) => {
    switchKeysOff(next);
    setOff(next);
  };
  return (
    <Dialog title="Keyboard shortcuts" close={close}>
      <p class="quiet">They count while no field has the focus.</p>
      <table>
        <tbody>
          {[...of, ['?', 'this list'], ['Esc', 'close a dialog']].map(([key, what]) => (
            <tr>
              <th>
                <kbd>{key}</kbd>
              </th>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>
        <label class="choice">
          <input type="checkbox" checked={isOff} onChange={(event) => change(event.currentTarget.checked)} />
          Switch them off in this browser
        </label>
      </p>
      <p class="actions">
        <button autoFocus onClick={close}>
          Close
        </button>
      </p>
    </Dialog>
  );
}

function PauseDialog({ snapshot, done, close }: Commanded) {
  const [hours, setHours] = useState('24');
  const [then, setThen] = useState<'finish' | 'resume'>('resume');
  const run = async () => {
    const now = await hone.pause(snapshot.id, { timeout_s: Number(hours) * 3600, on_timeout: then });
    return now.status === 'paused' ? 'Paused.' : 'It pauses when the calls in progress have ended.';
  };
  return (
    <Ask title="Pause it" label="Pause" run={run} done={done} close={close}>
      <p>The calls in progress are finished and kept. A paused refinement occupies no worker.</p>
      <label>
        At most for (hours, up to 168)
        <input type="number" min={0.01} max={168} step="any" required value={hours} onInput={(event) => setHours(event.currentTarget.value)} />
      </label>
      <label>
        Then
        <select value={then} onChange={(event) => setThen(event.currentTarget.value as typeof then)}>
          <option value="resume">it continues</option>
          <option value="finish">it ends with its best draft</option>
        </select>
      </label>
    </Ask>
  );
}

function FinishDialog({ snapshot, done, close }: Commanded) {
  const run = async () => (await hone.finish(snapshot.id), 'It ends with its best draft.');
  return (
    <Ask title="Finish it now?" label="Finish now" run={run} done={done} close={close}>
      <p>It ends with the best draft so far; without one, as soon as a draft is judged.</p>
    </Ask>
  );
}

function CancelDialog({ snapshot, done, close }: Commanded) {
  const run = async () => (await hone.cancel(snapshot.id), 'It is being canceled.');
  return (
    <Ask title="Cancel it?" label="Cancel the refinement" isDanger run={run} done={done} close={close}>
      <p>Work stops. The drafts that were judged are kept, and it can be continued from any of them.</p>
    </Ask>
  );
}

const LIMITS: [keyof schema.LimitsChange & keyof schema.Limits, string, number | undefined][] = [
  ['threshold', 'Threshold, from 0 to 1', 1],
  ['max_iterations', 'Iterations, up to 50', 50],
  ['max_seconds', 'Seconds of work', undefined],
  ['max_wait_seconds', 'Seconds of waiting for models', undefined],
  ['max_tokens', 'Tokens', undefined],
  ['max_cost_usd', 'Dollars', undefined],
];

/** The limits in force, as the last event says that has them. */
function limitsOf(live: Live): Partial<schema.Limits> {
  for (let at = live.events.length - 1; at >= 0; at--) {
    const data = live.events[at]?.data as { limits?: schema.Limits } | undefined;
    if (data?.limits) return data.limits;
  }
  return {};
}

/** Changes limits, or retries with others. */
function LimitsDialog({ snapshot, live, done, close, isRetry = false }: Commanded & { isRetry?: boolean }) {
  const [present] = useState(() => limitsOf(live));
  const [typed, setTyped] = useState<Record<string, string>>({});
  const shown = (name: keyof schema.Limits) => typed[name] ?? String(present[name] ?? '');
  const changed = LIMITS.filter(([name]) => shown(name) !== '' && Number(shown(name)) !== present[name]);
  const change = Object.fromEntries(changed.map(([name]) => [name, Number(shown(name))])) as schema.LimitsChange;
  const run = async () => {
    if (isRetry) return await hone.retry(snapshot.id, change), 'It is tried again.';
    await hone.change(snapshot.id, change);
    return `Changed: ${changed.map(([name]) => `${name} is ${shown(name)}`).join(', ')}.`;
  };
  return (
    <Ask
      title={isRetry ? 'Retry it' : 'Change its limits'}
      label={isRetry ? 'Retry' : 'Change'}
      missing={isRetry || changed.length ? undefined : 'Nothing is changed yet: type another limit.'}
      run={run}
      done={done}
      close={close}
    >
      {isRetry && <p>It goes on from its journal: what is recorded is neither done nor paid again.</p>}
      {LIMITS.map(([name, title, most]) => (
        <label>
          {title}
          {present[name] == null ? ' (now without a limit)' : ` (now ${present[name]})`}
          <input
            type="number"
            min={0}
            max={most}
            step="any"
            value={shown(name)}
            onInput={(event) => setTyped({ ...typed, [name]: event.currentTarget.value })}
          />
        </label>
      ))}
    </Ask>
  );
}

interface Chosen {
  live: Live;
  label: string;
  value: string;
  choose: (path: string) => void;
  none?: string;
}

/** Chooses one of the drafts that were judged. */
function DraftChoice({ live, label, value, choose, none }: Chosen) {
  const [judged] = useState(() => live.events.flatMap((it) => (it.type === 'iteration.completed' ? [it.data] : [])));
  return (
    <label>
      {label}
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {none !== undefined && <option value="">{none}</option>}
        {judged.map((it) => (
          <option value={it.path}>
            {it.path}: {scoreText(it.score)}
          </option>
        ))}
      </select>
    </label>
  );
}

const bestOf = (of: Snapshot): string => of.result?.path ?? of.best?.path ?? '';

function ContinueDialog({ snapshot, live, done, close }: Commanded) {
  const [path, setPath] = useState(bestOf(snapshot));
  const [feedback, setFeedback] = useState('');
  const [quote, setQuote] = useState('');
  const [others, setOthers] = useState('{}');
  const [fields, wrong] = readObject(others);
  const run = async () => {
    const said = feedback.trim() ? { feedback: feedback.trim() } : {};
    const marked = quote.trim() ? { spans: [{ quote: quote.trim() }] } : {};
    const made = await hone.continueFrom(snapshot.id, { ...fields, ...said, ...marked }, path ? { path } : {});
    navigate(hrefOf('refinements', made.id));
    return '';
  };
  return (
    <Ask title="Continue it" label="Continue" missing={wrong && 'The other fields are no JSON object yet.'} run={run} done={done} close={close}>
      <p>
        A new refinement starts from this draft as it was judged, also with changes that you undid, and with the same request unless you change it. This one stays as it
        is.
      </p>
      <DraftChoice live={live} label="Draft" value={path} choose={setPath} />
      <label>
        What to change (optional)
        <textarea rows={3} autoFocus maxLength={20_000} value={feedback} onInput={(event) => setFeedback(event.currentTarget.value)} />
      </label>
      <label>
        Only this passage of it may change (its words, optional)
        <textarea rows={2} value={quote} onInput={(event) => setQuote(event.currentTarget.value)} />
      </label>
      <label>
        Other fields of the request (JSON)
        <textarea
          class="code"
          rows={3}
          spellcheck={false}
          aria-invalid={Boolean(wrong)}
          value={others}
          onInput={(event) => setOthers(event.currentTarget.value)}
        />
      </label>
      {wrong && <p class="error">{wrong}</p>}
    </Ask>
  );
}

function RateDialog({ snapshot, live, done, close }: Commanded) {
  const [path, setPath] = useState(bestOf(snapshot));
  const [worse, setWorse] = useState('');
  const [score, setScore] = useState('');
  const [by, setBy] = useState('');
  const [note, setNote] = useState('');
  const run = async () => {
    await hone.rate(snapshot.id, {
      path,
      score: worse || score === '' ? null : Number(score),
      better_than: worse || null,
      by: by.trim() || null,
      note: note.trim() || null,
    });
    return `Your rating of ${path} is recorded.`;
  };
  const isUnsaid = score === '' && !worse;
  const missing = isUnsaid ? 'Type a score, or choose a draft that it is better than.' : path === worse ? 'No draft is better than itself.' : undefined;
  return (
    <Ask title="Rate a draft" label="Rate it" missing={missing} run={run} done={done} close={close}>
      <p>Ratings change nothing about the refinement. They show how well scores agree with people.</p>
      <DraftChoice live={live} label="Draft" value={path} choose={setPath} />
      <label>
        What it deserves, from 0 to 1
        <input
          type="number"
          min={0}
          max={1}
          step="any"
          autoFocus
          disabled={Boolean(worse)}
          value={score}
          onInput={(event) => setScore(event.currentTarget.value)}
        />
      </label>
      <DraftChoice live={live} label="Or it is better than" value={worse} choose={setWorse} none="no other draft" />
      <label>
        Your name (optional)
        <input value={by} maxLength={100} onInput={(event) => setBy(event.currentTarget.value)} />
      </label>
      <label>
        Why (optional)
        <textarea rows={2} value={note} onInput={(event) => setNote(event.currentTarget.value)} />
      </label>
    </Ask>
  );
}

function LinkDialog({ snapshot, close }: Commanded) {
  const [seconds, setSeconds] = useState('3600');
  const [made, setMade] = useState<schema.IssuedToken>();
  const [failure, setFailure] = useState<unknown>();
  const make = (event: Event) => {
    event.preventDefault();
    const path = `/v1/refinements/${encodeURIComponent(snapshot.id)}/tokens`;
    setFailure(undefined);
    hone.request<schema.IssuedToken>(path, { method: 'POST', json: { expires_in_s: Number(seconds) } }).then(setMade, setFailure);
  };
  const address = made && `${location.origin}${hrefOf('refinements', snapshot.id).replace(/#.*/, '')}#token=${made.token}`;
  return (
    <Dialog title="A link to read it" close={close}>
      <form class="ask" onSubmit={make}>
        <p>Who has the link sees this refinement with its texts and prompts, without a key, until the link expires. Nothing can be changed with it.</p>
        <label>
          It works for
          <select value={seconds} onChange={(event) => setSeconds(event.currentTarget.value)}>
            <option value="600">10 minutes</option>
            <option value="3600">an hour</option>
          </select>
        </label>
        {address && (
          <label>
            Link, until {new Date(made.expires_at).toLocaleTimeString()}
            <input readOnly value={address} onFocus={(event) => event.currentTarget.select()} />
          </label>
        )}
        {failure !== undefined && <Failure of={failure} />}
        <p class="actions">
          <button class={address ? '' : 'main'}>{address ? 'Make another link' : 'Make the link'}</button>
          <button type="button" onClick={close}>
            Close
          </button>
        </p>
      </form>
      {address && (
        <p>
          <Copy text={address} label="Copy the link" />
        </p>
      )}
    </Dialog>
  );
}

/** Remove from this tab what it keeps of a refinement: what was decided, what was written about it, and what was sent last. */
function forget(id: string): void {
  for (const name of Object.keys(sessionStorage))
    if (name.includes(id) || name.endsWith(' sent')) sessionStorage.removeItem(name);
}

function EraseDialog({ snapshot, close }: Pick<Commanded, 'snapshot' | 'close'>) {
  const end = snapshot.id.slice(-4);
  const [typed, setTyped] = useState('');
  const run = async () => {
    await hone.erase(snapshot.id);
    forget(snapshot.id);
    navigate(hrefOf('refinements'));
    return '';
  };
  const missing = typed.trim().toUpperCase() === end ? undefined : `To erase it, type the last four characters of its id: ${end}.`;
  return (
    <Ask title="Erase it?" label="Erase for ever" isDanger missing={missing} run={run} done={() => undefined} close={close}>
      <p>Its texts, events and everything derived from it are gone for ever. If it is in progress, work stops.</p>
      <label>
        Type the last four characters of its id: {end}
        <input autoFocus value={typed} autoComplete="off" aria-invalid={Boolean(typed && missing)} onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>
    </Ask>
  );
}
