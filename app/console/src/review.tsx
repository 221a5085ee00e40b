/** One review: the draft or the call that a person decides about, and the decision. */
import { ApiError, type schema } from 'hone';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { hone, readDraft, type Session } from './api.js';
import { isChange } from './changes.js';
import { jsonOf } from './code.js';
import { Ask } from './dialog.js';
import { usePieces } from './manuscript.js';
import { useGiven } from './overview.js';
import { Editor } from './editor.js';
import { type Change, feedbackOf, NOTHING, type Words } from './kept.js';
import type { Journaled } from './live.js';
import { Failure, Loading, Name, Names, scoreText, useLoaded, When } from './parts.js';
import { MarkedDraft, Remarks, spansOf, withRemark } from './remarks.js';
import { goTo } from './shortcuts.js';
import { ACTIONS } from './words.js';

const REVIEWER = 'hone.reviewer';

export type Decision = Omit<schema.ReviewDecision, 'path' | 'reviewer'>;

interface Reviewed {
  id: string;
  review: schema.PendingReview;
  /** The last event that the reviewer has seen, by which the service knows of a decision in between. */
  seen: number;
  events: Journaled[];
  session: Session;
  words: Words;
  keep: (change?: Change) => void;
  /** Send a decision: `action` waits for the answer and says what came of it. */
  sending: (action: () => Promise<void>) => Promise<void>;
  say: (said: string) => void;
  /** Approve this text once it is judged, and waits for a review. */
  approveLater: (own: { text: string; instead: string }) => void;
}

export function ReviewPanel(of: Reviewed) {
  const { id, review, seen, events, session, keep } = of;
  const [failure, setFailure] = useState<unknown>();
  const [version, setVersion] = useState(seen);
  const [reviewer, setReviewer] = useState(() => localStorage.getItem(REVIEWER) ?? '');
  const isOpen = session.key_id === null;
  const send = (decision: Decision) =>
    of.sending(async () => {
      keep((it) => ({ ...(it ?? NOTHING), tried: decision.action }));
      setFailure(undefined);
      setVersion(seen);
      try {
        const named = isOpen && takesText(review) && reviewer.trim() ? { reviewer: reviewer.trim() } : {};
        const now = await hone.review(id, { ...decision, path: review.key, ...named }, seen);
        const isOpenStill = (now.reviews ?? []).some((it) => it.key === review.key);
        keep();
        of.say(isOpenStill ? 'Your approval was counted; others must approve too.' : `Sent: ${ACTIONS[decision.action]}.`);
      } catch (thrown) {
        // What was refused for itself can be corrected here; only what came too late is told apart.
        if (!isTooLate(thrown)) keep((it) => (it && !isEmpty(it) ? { ...it, tried: undefined } : undefined));
        setFailure(thrown);
      }
    });
  const who = isOpen && takesText(review) && (
    <ReviewerName of={review} name={reviewer} setName={(it) => (localStorage.setItem(REVIEWER, it), setReviewer(it))} />
  );
  const shared = { ...of, send, who };
  return (
    <section class="review" aria-label={`Review of ${review.path ?? 'the refinement'}`}>
      <h2 id={review.key}>{review.when === 'requested' ? 'Paused' : `Review of ${review.path}`}</h2>
      <Approvals of={review} />
      {review.when === 'requested' && (
        <p class="actions">
          <button class="main" onClick={() => send({ action: 'resume' })}>
            Go on now
          </button>
        </p>
      )}
      {review.call ? (
        <CallReview {...shared} call={review.call} />
      ) : !takesText(review) ? null : review.path ? (
        <DraftReview {...shared} />
      ) : (
        <FirstDraft {...shared} />
      )}
      {failure !== undefined && (
        <Failure of={failure}>
          {isTooLate(failure) && <Since events={events} after={version} />}
        </Failure>
      )}
    </section>
  );
}

/** Whether a revision, or a text in place of the draft, is followed: of a pause that was requested not everywhere. */
const takesText = (review: schema.PendingReview): boolean => review.when !== 'requested' || Boolean(review.place);

/** Whether the panel of a review shows its draft. */
export const showsDraft = (review: schema.PendingReview): boolean => takesText(review) && Boolean(review.path) && !review.call;

const isTooLate = (failure: unknown): boolean => failure instanceof ApiError && [409, 412].includes(failure.status);

export const isEmpty = (words: Words): boolean =>
  !words.feedback && !words.remarks.length && !words.remark && !words.score && words.draft === undefined && words.arguments === undefined;

/** What others did after an event. */
function Since({ events, after }: { events: Journaled[]; after: number }) {
  const told = events.filter((it) => it.event > after).map(saidIn).filter(Boolean);
  return (
    <>
      {told.map((it) => (
        <p>{it}</p>
      ))}
      <p>What you wrote is still here: look again, and send it if it still applies.</p>
    </>
  );
}

/** Return what somebody decided, in a sentence; nothing for other events. */
export function saidIn(event: Journaled): ComponentChildren {
  if (event.type === 'refinement.approval_given')
    return (
      <>
        <Name of={event.data.reviewer} /> approved it
        <Quoted of={event.data.feedback} /> ({event.data.given} of {event.data.needed}).
      </>
    );
  if (event.type === 'refinement.reviewed') {
    const { by, reviewer, approved_by, action, feedback, score } = event.data;
    const known = reviewer ? [reviewer] : (approved_by ?? []);
    return (
      <>
        {by === 'timeout' ? 'The time-out' : known.length ? <Names of={known} /> : 'Another reviewer'} was first:{' '}
        {ACTIONS[action] ?? action}
        {score != null && `, score ${scoreText(score)}`}
        <Quoted of={feedback} />.
      </>
    );
  }
  if (event.type === 'refinement.changed') return 'Somebody changed the limits.';
  if (event.type === 'refinement.rated') return `Somebody rated ${event.data.path}.`;
  return null;
}

function Quoted({ of }: { of: string | null | undefined }) {
  if (!of) return null;
  return (
    <>
      , “<Name of={of} />”
    </>
  );
}

function Approvals({ of }: { of: schema.PendingReview }) {
  const given = of.approvals ?? [];
  const needed = of.approvals_needed ?? 1;
  if (needed < 2 && !given.length) return null;
  return (
    <>
      <p>
        {given.length} of {needed} approvals; {needed - given.length} more {needed - given.length === 1 ? 'is' : 'are'} needed.
      </p>
      <ul>
        {given.map((it) => (
          <li>
            <strong>
              <Name of={it.reviewer} />
            </strong>{' '}
            approved it <When at={it.at} />
            {it.score != null && `, score ${scoreText(it.score)}`}
            <Quoted of={it.feedback} />
          </li>
        ))}
      </ul>
    </>
  );
}

interface Name {
  of: schema.PendingReview;
  name: string;
  setName: (name: string) => void;
}

/** Who decides, where no key says so. */
function ReviewerName({ of, name, setName }: Name) {
  const asked = of.reviewers ?? [];
  return (
    <p>
      <label>
        Your name{asked.length || (of.approvals_needed ?? 1) > 1 ? '' : ' (others see it; optional)'}
        {asked.length ? (
          <select value={asked.includes(name) ? name : ''} onChange={(event) => setName(event.currentTarget.value)}>
            <option value="">choose</option>
            {asked.map((it) => (
              <option>{it}</option>
            ))}
          </select>
        ) : (
          <input value={name} autoComplete="name" onInput={(event) => setName(event.currentTarget.value)} />
        )}
      </label>
    </p>
  );
}

interface Deciding extends Reviewed {
  send: (decision: Decision) => Promise<void>;
  /** The field for the name of who decides, where no key says it. */
  who: ComponentChildren;
}

/** A call of a tool: make it, make it with other arguments, or do not make it. */
function CallReview({ call, words, keep, send, who }: Deciding & { call: schema.PlannedCall }) {
  const planned = jsonOf(call.arguments, 2);
  const text = words.arguments ?? planned;
  const [changed, wrong] = readObject(text);
  const edit = (next: string) => keep({ ...words, arguments: next === planned ? undefined : next });
  const isChanged = words.arguments !== undefined;
  const field = useRef<HTMLTextAreaElement>(null);
  const undo = () => {
    keep({ ...words, arguments: undefined });
    field.current?.focus(); // what stands where the button was would decide at the next key
  };
  const feedback = words.feedback.trim() || null;
  return (
    <>
      <p>
        It wants to call <code>{call.tool}</code>. <Name of={call.why} />
      </p>
      <label class="line">
        Arguments (JSON)
        <textarea
          ref={field}
          class="code"
          data-key="e"
          rows={Math.min(16, text.split('\n').length + 1)}
          spellcheck={false}
          aria-invalid={Boolean(wrong)}
          value={text}
          onInput={(event) => edit(event.currentTarget.value)}
        />
      </label>
      {wrong && <p class="error">{wrong}</p>}
      <Feedback words={words} keep={keep} label="Reason, if you reject it" />
      {who}
      <p class="actions">
        {isChanged ? (
          <>
            <button class="main" disabled={Boolean(wrong)} onClick={() => send({ action: 'replace', arguments: changed })}>
              Call it with these arguments
            </button>
            <button onClick={undo}>Undo my changes</button>
          </>
        ) : (
          <button class="main" data-key="a" onClick={() => send({ action: 'approve', feedback })}>
            Approve the call
          </button>
        )}
        <button class="danger" data-key="x" onClick={() => send({ action: 'reject', feedback })}>
          Reject the call
        </button>
      </p>
    </>
  );
}

/** Return the object that a text of JSON is, or what is wrong with it. */
export function readObject(text: string): [Record<string, unknown> | undefined, string] {
  try {
    const read: unknown = JSON.parse(text);
    if (typeof read === 'object' && read !== null && !Array.isArray(read)) return [read as Record<string, unknown>, ''];
    return [undefined, 'An object in braces is needed.'];
  } catch (error) {
    return [undefined, `Not JSON: ${error instanceof Error ? error.message : String(error)}`];
  }
}

function Feedback({ words, keep, label }: { words: Words; keep: (words?: Words) => void; label: string }) {
  return (
    <label class="line">
      {label}
      <textarea
        rows={3}
        maxLength={20_000}
        data-key="r"
        value={words.feedback}
        onInput={(event) => keep({ ...words, feedback: event.currentTarget.value })}
      />
    </label>
  );
}

/** A draft: read it, mark passages, and decide. */
function DraftReview(of: Deciding) {
  const { id, review, words, keep, send } = of;
  const { value: iteration, failure } = useLoaded(() => readDraft(id, review.path ?? ''), [id, review.path]);
  const given = useGiven(id, true);
  const { value: drafts } = useLoaded(async () => (iteration ? (await hone.iterations(id, { excerpts: true })).data : undefined), [iteration]);
  const [isOpened, setOpened] = useState(false); // else it was open before the page was loaded, and has no claim to the focus
  const wasEdited = useRef(false);
  wasEdited.current ||= words.draft !== undefined;
  if (failure !== undefined) return <Failure of={failure} />;
  if (!iteration) return <Loading what="Loading the draft" />;
  return (
    <>
      {words.draft === undefined ? (
        <Verdict {...of} iteration={iteration} drafts={drafts} given={given.value?.text ?? null} edited={() => setOpened(true)} isClosed={wasEdited.current} />
      ) : (
        <Editor
          draft={iteration.draft}
          edited={words.draft}
          hasFocus={isOpened}
          change={(draft) => keep({ ...words, draft })}
          send={(draft) => send({ action: 'replace', draft })}
          approve={
            review.when === 'before_completion' && (review.approvals_needed ?? 1) < 2
              ? (draft) => (of.approveLater({ text: draft, instead: review.key }), send({ action: 'replace', draft }))
              : undefined
          }
        />
      )}
      {words.draft !== undefined && of.who}
      <Judgement of={iteration} />
    </>
  );
}

/** No draft was judged yet: a text given here is the first one. */
function FirstDraft({ words, keep, send, who }: Deciding) {
  return (
    <>
      <Editor
        draft=""
        edited={words.draft ?? ''}
        hasFocus={false}
        change={(draft) => keep({ ...words, draft })}
        send={(draft) => send({ action: 'replace', draft })}
      />
      {who}
    </>
  );
}

function Judgement({ of }: { of: schema.Iteration }) {
  return (
    <details class="folding">
      <summary>
        Score {scoreText(of.score)}, {of.passed ? 'passed' : 'not passed'}; findings: {of.findings.length}
      </summary>
      <ul>
        {of.scores.map((it) => (
          <li>
            <strong>
              <Name of={it.criterion} />
            </strong>{' '}
            {scoreText(it.score)}: <Name of={it.reason} />
          </li>
        ))}
        {of.findings.map((it) => (
          <li>
            {it.source}: <Name of={it.message} />
            {it.quote && (
              <>
                {' '}
                <q>
                  <Name of={it.quote} />
                </q>
              </>
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}

interface Judging extends Deciding {
  iteration: schema.Iteration;
  /** All drafts so far, which come later: the reasons of changes. */
  drafts: schema.Iteration[] | undefined;
  /** The text that was given. */
  given: string | null;
  edited: () => void;
  /** Whether it stands where the editor was: its opener has the focus that the editor had. */
  isClosed: boolean;
}

function Verdict({ review, words, keep, send, who, iteration, drafts, given, edited, isClosed }: Judging) {
  const [wrong, setWrong] = useState('');
  const [isRejecting, setRejecting] = useState(false);
  const [askedNothing, setAskedNothing] = useState(false);
  const draft = iteration.draft;
  const [isMarked, setMarked] = useState(true);
  const reasons = useMemo(() => drafts ?? [iteration], [drafts, iteration]);
  const pieces = usePieces(given, draft, reasons);
  const count = pieces?.filter(isChange).length ?? 0;
  const opener = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    if (isClosed && document.activeElement === document.body) opener.current?.focus();
  }, []);
  useEffect(() => setWrong(''), [words.passage.quote]);
  const isAsked = review.when !== 'requested'; // else what was paused takes no verdict
  const score = !isAsked || words.score === '' ? null : Number(words.score);
  const said = { feedback: feedbackOf(words) || null, score };
  const revise = () => {
    const [all, problem] = words.remark ? withRemark(words, draft) : [words, ''];
    setWrong(problem);
    if (problem) return;
    if (all !== words) keep(all);
    if (!feedbackOf(all) && !all.remarks.length) {
      goTo('r');
      return setAskedNothing(true);
    }
    const spans = all.isLimited ? spansOf(all.remarks, draft) : [];
    void send({ action: 'revise', feedback: feedbackOf(all) || null, score, spans });
  };
  return (
    <>
      {count > 0 && (
        <p class="actions">
          <label class="choice">
            <input type="checkbox" checked={isMarked} onChange={(event) => setMarked(event.currentTarget.checked)} />
            Mark the {count === 1 ? 'change' : `${count} changes`}
          </label>
        </p>
      )}
      <MarkedDraft
        of={draft}
        pieces={isMarked && count ? pieces : undefined}
        remarks={words.remarks}
        selected={(start, end) => keep({ ...words, passage: { quote: draft.slice(start, end), start } })}
      />
      <div class="decide">
        {words.passage.start !== undefined && (
          <p>
            <button class="link" onClick={() => goTo('m')}>
              Say what is wrong with “<Name of={words.passage.quote.slice(0, 40)} />
              {words.passage.quote.length > 40 && '…'}”
            </button>{' '}
            <kbd aria-hidden="true">m</kbd>
          </p>
        )}
        <p class="actions">
          {isAsked && (
            <button class="main" data-key="a" onClick={() => send({ action: 'approve', ...said })}>
              Approve
            </button>
          )}
          <button onClick={revise}>Ask for a revision</button>
          <button ref={opener} data-key="e" onClick={() => (edited(), keep({ ...words, draft }))}>
            Edit the draft
          </button>
          {isAsked && (
            <button class="danger" data-key="x" aria-haspopup="dialog" onClick={() => setRejecting(true)}>
              Reject
            </button>
          )}
        </p>
      </div>
      <Remarks words={words} keep={keep} draft={draft} wrong={wrong} setWrong={setWrong} />
      <Feedback words={words} keep={keep} label="What to change, in the whole draft" />
      {askedNothing && !feedbackOf(words) && (
        <p class="error" role="alert">
          Say here what to change, or mark a passage; then ask for the revision.
        </p>
      )}
      {who}
      <p class="actions" hidden={!isAsked}>
        <label>
          Your score, from 0 to 1 (optional)
          <input
            type="number"
            min={0}
            max={1}
            step="any"
            value={words.score}
            onInput={(event) => keep({ ...words, score: event.currentTarget.value })}
          />
        </label>
        {isAsked && (review.approvals_needed ?? 1) < 2 && (
          <button disabled={score === null} onClick={() => send({ action: 'rate', ...said })}>
            Only score it
          </button>
        )}
      </p>
      {isRejecting && (
        <Ask
          title={`Reject ${review.path}?`}
          label="Reject the draft"
          isDanger
          run={async () => (await send({ action: 'reject', ...said }), '')}
          done={() => undefined}
          close={() => setRejecting(false)}
        >
          <p>
            {/^(iterations|reviews)\//.test(review.path ?? '')
              ? 'The refinement ends with its best draft, which does not count as passed.'
              : 'What was made here is not used.'}
          </p>
        </Ask>
      )}
    </>
  );
}

