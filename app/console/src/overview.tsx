/** A refinement at a glance: the text with what changed in it; below it scores, and what went on when. */
import type { Snapshot } from 'hone';
import { hone, readDraft, readToken } from './api.js';
import { Chart } from './chart.js';
import type { Live } from './live.js';
import { Manuscript } from './manuscript.js';
import { Copy, costText, Fact, Failure, Loading, Name, scoreText, secondsText, Text, useLoaded, useNow, type Given, textOf } from './parts.js';
import type { View } from './refinement.js';
import { hrefOf, Link } from './router.js';
import { TimelineView } from './timeline.js';
import { titleOf } from './title.js';
import { SCORES_FROM } from './words.js';

/** The text that was given, which a read link has as the first draft; null where there was none. */
export function useGiven(id: string, isJudged: boolean): { value?: Asked; failure?: unknown } {
  return useLoaded(async (signal) => {
    if (!readToken) {
      const { draft, task } = await hone.request<{ draft?: Given; task?: string | null }>(`/v1/refinements/${id}/request`, { signal });
      return { text: textOf(draft), task };
    }
    const first = isJudged ? (await hone.iterations(id, { excerpts: true })).data.find((it) => it.path === 'iterations/0') : undefined;
    return { text: first ? (await readDraft(id, first.path, signal)).draft : null };
  }, [id, readToken ? isJudged : false]);
}

/** The text that was given, if any, and what should be better, or be written. */
interface Asked {
  text: string | null;
  task?: string | null | undefined;
}

/** The text: as it was given at first, with each change once it is decided, and the result in the end. */
export function TheText({ id, snapshot, live, drafts }: View) {
  const { best, result } = snapshot;
  const given = useGiven(id, best !== null);
  const { value: draft } = useLoaded(
    async (signal) => (result || !best ? undefined : (await readDraft(id, best.path, signal)).draft),
    [best?.sha256, result === null],
  );
  const isGoing = snapshot.ended_at === null;
  if (snapshot.erased_at && !result) return <p class="quiet">The text was erased, as its retention says.</p>;
  const after = result?.draft ?? draft ?? (best ? undefined : (given.value?.text ?? undefined));
  // With the result that is not stored, what was given is erased.
  const asked = given.value ?? (result && given.failure !== undefined ? { text: null } : undefined);
  const isKnown = asked !== undefined && (after !== undefined || (best === null && asked.text === null));
  return (
    <>
      {asked?.task && (
        <p class="quiet asked">
          Asked for: <Name of={asked.task} />
        </p>
      )}
      {isGoing && <Doing of={snapshot} texts={live.texts} />}
      {!isKnown && given.failure !== undefined && <Failure of={given.failure} />}
      {!isKnown && given.failure === undefined && <Loading what="Loading the text" />}
      {isKnown && after !== undefined && (
        <Manuscript
          key={id}
          id={id}
          title={titleOf(snapshot)}
          before={asked.text}
          after={after}
          drafts={drafts.value?.data}
          isFinal={!isGoing}
          hasPassed={snapshot.outcome === 'passed'}
        />
      )}
      {result && <Outputs of={result} />}
      {isGoing && <Writing of={live.texts} isOpen={best === null && asked?.text === null} />}
    </>
  );
}

const DOING: [RegExp, string][] = [
  [/critique|judge|vote|compar|verif|criteria/, 'Judging the text'],
  [/revise|draft|write|generate|passages|edits|outline/, 'Writing a better version'],
  [/validat|check/, 'Checking the text'],
  [/review|approval/, 'Waiting for a person'],
];

/** What goes on now, in words. */
function Doing({ of, texts }: { of: Snapshot; texts: Map<string, string> }) {
  const said = new Set(of.phase.map((key) => DOING.find(([it]) => it.test(key.slice(key.lastIndexOf('/'))))?.[1] ?? 'Working'));
  const written = [...texts.values()].reduce((sum, it) => sum + it.length, 0);
  const doing = of.status === 'queued' ? 'Waiting to begin' : of.status === 'paused' ? 'Waiting for a person' : [...said].join(', ') || 'Working';
  return (
    <p class={of.status === 'running' ? 'doing' : 'doing still'}>
      {doing}
      {written > 0 && <span class="quiet"> {written.toLocaleString('en')} characters so far</span>}
    </p>
  );
}

/** The figures behind the result: scores, what was spent, and what went on when. */
export function Figures({ snapshot, live }: View) {
  return (
    <>
      <Facts of={snapshot} live={live} />
      <Chart live={live} snapshot={snapshot} />
      {snapshot.result && <Measured of={snapshot.result} />}
      <TimelineView live={live} isGoing={snapshot.ended_at === null} />
    </>
  );
}

/** The texts that models are writing now. */
function Writing({ of, isOpen }: { of: Map<string, string>; isOpen: boolean }) {
  return (
    <details open={isOpen || undefined}>
      <summary>What is being written{of.size === 0 && ': nothing at the moment'}</summary>
      {[...of].map(([key, text]) => (
        <section key={key}>
          <h3>
            {key} <small class="quiet">{text.length.toLocaleString('en')} characters</small>
          </h3>
          <Text of={text} isEnd />
        </section>
      ))}
    </details>
  );
}

const VERDICTS: Record<string, string> = {
  better: 'better than the draft it started from, in both orders',
  worse: 'worse than the draft it started from, in both orders',
  tie: 'neither better nor worse than the draft it started from',
  undecided: 'undecided: which of the two is better depended on their order',
};

/** Which draft the result is, and what its score is. */
function Measured({ of }: { of: NonNullable<Snapshot['result']> }) {
  return (
    <p class="quiet">
      The result is {of.path}
      {of.score !== null && `, score ${scoreText(of.score)}: ${SCORES_FROM[of.score_from ?? 'critique'] ?? of.score_from}`}.
      {of.comparison && ` Compared: ${VERDICTS[of.comparison.verdict] ?? of.comparison.verdict}.`}
      {!readToken && (
        <>
          {' '}
          <Link href={hrefOf('insights')}>What raises scores</Link>
        </>
      )}
    </p>
  );
}

function Outputs({ of }: { of: NonNullable<Snapshot['result']> }) {
  return (
    <>
      {Object.entries(of.outputs ?? {}).map(([name, text]) => (
        <section key={name}>
          <h2>
            <Name of={name} />
          </h2>
          <Copy text={text} label={<>Copy <Name of={name} /></>} />
          <Text of={text} />
        </section>
      ))}
    </>
  );
}

/** Score against threshold, estimate, iterations, and what was spent. */
function Facts({ of, live }: { of: Snapshot; live: Live }) {
  const now = useNow(of.started_at !== null && of.ended_at === null);
  const { usage, result } = of;
  const score = result ? result.score : of.best?.score;
  const estimate = result?.estimate;
  const ended = of.ended_at ? Date.parse(of.ended_at) : Math.max(now, live.latest);
  return (
    <dl class="facts">
      <Fact name="Score" note={`threshold ${scoreText(of.threshold)}`}>
        {scoreText(score)}
      </Fact>
      {estimate && (
        <Fact name="Estimate" note={estimate.chance == null ? '' : `chance of the threshold: ${Math.floor(100 * estimate.chance)} %`}>
          {scoreText(estimate.value)} <small>± {scoreText(estimate.error)}</small>
        </Fact>
      )}
      <Fact name="Iteration" {...beyond(of, live)}>
        {of.iteration === null ? '–' : Math.min(of.iteration, of.max_iterations)} <small>of {of.max_iterations}</small>
      </Fact>
      <Fact
        name="Calls"
        note={`${(usage.input_tokens ?? 0).toLocaleString('en')} + ${(usage.output_tokens ?? 0).toLocaleString('en')} tokens`}
      >
        {usage.calls ?? 0}
      </Fact>
      <Fact name="Cost" note={!readToken && <Link href={hrefOf('cost')}>All costs</Link>}>
        {usage.cost_usd == null ? 'unknown' : costText(usage.cost_usd)}
      </Fact>
      <Fact name="Time" note={`steps: ${secondsText(usage.seconds ?? 0)}`}>
        {of.started_at ? secondsText(Math.max(0, ended - Date.parse(of.started_at)) / 1000) : 'not started'}
      </Fact>
    </dl>
  );
}

/** Say what the limit does not count: a review may ask for one more, and the limit may be lowered. Nothing before all events are known. */
function beyond(of: Snapshot, live: Live): { note?: string } {
  const more = (of.iteration ?? 0) - of.max_iterations;
  if (more <= 0 || !live.isCaughtUp) return {};
  const asked = live.events.filter((it) => it.type === 'refinement.reviewed' && ['revise', 'replace'].includes(it.data.action));
  return { note: asked.length >= more ? `and ${more} more that reviews asked for` : `and ${more} more before the limit was lowered` };
}
