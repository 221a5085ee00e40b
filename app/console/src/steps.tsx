/** What models were asked and what they said, with tokens and dollars. */
import type { schema } from 'hone';
import { useEffect, useRef, useState } from 'preact/hooks';
import { hone } from './api.js';
import { costText, Failure, Loading, Name, secondsText, Text, useLoaded } from './parts.js';
import type { View } from './refinement.js';

type Step = schema.StepPage['data'][number];

const PAGE = 20;
const KINDS: Record<string, string> = { ask: 'model', check: 'validators', call: 'tool' };

export function Steps({ id, snapshot }: View) {
  const [steps, setSteps] = useState<Step[]>();
  const [after, setAfter] = useState(0);
  const [hasMore, setMore] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const [kind, setKind] = useState('');
  const [model, setModel] = useState('');
  const isReading = useRef(false);
  const read = async () => {
    if (isReading.current) return; // the same page twice
    isReading.current = true;
    try {
      const query = { after, limit: PAGE, excerpts: 'true' };
      const page = await hone.request<schema.StepPage>(`/v1/refinements/${id}/steps`, { query });
      setSteps((it) => [...(it ?? []), ...page.data]);
      setAfter(page.next_after);
      setMore(page.has_more);
      setFailure(undefined);
    } catch (error) {
      setFailure(error);
    } finally {
      isReading.current = false;
    }
  };
  useEffect(() => {
    if (!hasMore) void read(); // what has ended since
  }, [snapshot.last_event]);
  if (!steps) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  const models = [...new Set(steps.flatMap((it) => it.model ?? []))];
  const shown = steps.filter((it) => (!kind || it.kind === kind) && (!model || it.model === model));
  return (
    <>
      {failure !== undefined && <Failure of={failure} />}
      <Totals of={steps} isPart={hasMore} />
      <div class="filters">
        <label>
          Kind
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            <option value="">any</option>
            {Object.entries(KINDS).map(([value, title]) => (
              <option value={value}>{title}</option>
            ))}
          </select>
        </label>
        <label>
          Model
          <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
            <option value="">any</option>
            {models.map((it) => (
              <option>{it}</option>
            ))}
          </select>
        </label>
      </div>
      {!shown.length && <p class="quiet">No steps.</p>}
      {shown.map((it) => (
        <OneStep key={it.event} id={id} of={it} />
      ))}
      {hasMore && <button onClick={() => void read()}>More steps</button>}
    </>
  );
}

/** What each role has used, by the name of its prompt. */
function Totals({ of, isPart }: { of: Step[]; isPart: boolean }) {
  const rows = new Map<string, Step[]>();
  for (const it of of) {
    const name = it.prompt?.name ?? KINDS[it.kind ?? ''] ?? 'other';
    rows.set(name, [...(rows.get(name) ?? []), it]);
  }
  if (!rows.size) return null;
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="What was used, by role">
      <table class="rows listing">
        <caption class="quiet">{isPart ? 'The steps shown below' : 'All steps'}, by what they were for</caption>
        <thead>
          <tr>
            <th>For</th>
            <th>Steps</th>
            <th>Tokens in</th>
            <th>cached</th>
            <th>out</th>
            <th>Cost</th>
            <th>Time</th>
          </tr>
        </thead>
        <tbody>
          {[...rows].map(([name, steps]) => (
            <tr key={name}>
              <td>{name}</td>
              <td data-name="Steps">{steps.length}</td>
              <td data-name="Tokens in">{sum(steps, 'input_tokens')}</td>
              <td data-name="cached">{sum(steps, 'cached_tokens')}</td>
              <td data-name="out">{sum(steps, 'output_tokens')}</td>
              <td data-name="Cost">{costText(total(steps))}</td>
              <td>{secondsText(steps.reduce((all, it) => all + it.seconds, 0))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const sum = (steps: Step[], of: 'input_tokens' | 'output_tokens' | 'cached_tokens'): string =>
  steps.reduce((all, it) => all + (it.usage[of] ?? 0), 0).toLocaleString('en');

/** An unknown cost makes the sum unknown. */
const total = (steps: Step[]): number | null =>
  steps.reduce<number | null>((all, { usage }) => (all === null || usage.cost_usd == null ? null : all + usage.cost_usd), 0);

function OneStep({ id, of }: { id: string; of: Step }) {
  const [isOpen, setOpen] = useState(false);
  const { usage } = of;
  return (
    <details class="step" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <strong>{of.key}</strong> <span class="quiet">{[KINDS[of.kind ?? ''], of.model].filter(Boolean).join(', ')}</span>
        {of.code && <span class="failed"> failed: {of.code.replaceAll('_', ' ')}</span>}
        {of.is_voided && <span class="quiet"> (voided by a retry)</span>}
        <span class="quiet">
          {' '}
          {secondsText(of.seconds)}
          {of.kind === 'ask' && `, ${usage.input_tokens ?? 0} + ${usage.output_tokens ?? 0} tokens, ${costText(usage.cost_usd)}`}
        </span>
      </summary>
      {isOpen && <Whole id={id} of={of} />}
    </details>
  );
}

/** A step with its texts, of which the list has excerpts. */
function Whole({ id, of }: { id: string; of: Step }) {
  const query = { path: of.key, after: of.event - 1, limit: 1 };
  const { value, failure } = useLoaded(
    (signal) => hone.request<schema.StepPage>(`/v1/refinements/${id}/steps`, { query, signal }),
    [of.event],
  );
  const step = value?.data[0];
  if (!step) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  return <Inside of={step} />;
}

function Inside({ of }: { of: Step }) {
  const { prompt, reply } = of;
  return (
    <>
      {of.tried?.map((it) => (
        <p>
          {it.model} was asked first: {it.code.replaceAll('_', ' ')}, <Name of={it.detail} />
        </p>
      ))}
      {prompt && prompt.user === null && (
        <p class="quiet">
          Asked with prompt {prompt.name}, version {prompt.version}; its text was not kept (HONE_KEEP_PROMPTS is off).
        </p>
      )}
      {prompt?.system && <Titled title="Instructions" text={prompt.system} />}
      {prompt?.user && <Titled title="Asked" text={prompt.user} />}
      {reply && <Reply of={reply} />}
      {of.detail && <Titled title="Why it failed" text={of.detail} />}
    </>
  );
}

function Reply({ of }: { of: NonNullable<Step['reply']> }) {
  if (of.kind !== 'findings') return <Titled title={of.kind === 'tool' && !of.ok ? 'The tool failed' : 'Answered'} text={of.text} />;
  return (
    <>
      <h2>Found</h2>
      {!of.findings?.length && <p>Nothing: all validators passed.</p>}
      <ul>
        {of.findings?.map((it) => (
          <li>
            {it.kind}: <Name of={it.message} />{' '}
            {it.quote && (
              <q>
                <Name of={it.quote} />
              </q>
            )}{' '}
            <span class="quiet">
              <Name of={it.fix} />
            </span>
          </li>
        ))}
      </ul>
      {of.text && <Titled title="As corrected" text={of.text} />}
    </>
  );
}

function Titled({ title, text }: { title: string; text: string }) {
  return (
    <>
      <h2>{title}</h2>
      <Text of={text} />
    </>
  );
}
