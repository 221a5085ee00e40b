/** What was submitted, and the limits now in force. */
import type { RefinementRequest, Snapshot } from 'hone';
import { useState } from 'preact/hooks';
import { hone } from './api.js';
import { jsonOf } from './code.js';
import type { Live } from './live.js';
import { Copy, Failure, Loading, Name, Names, scoreText, Text, textOf, useLoaded } from './parts.js';
import type { View } from './refinement.js';
import { Deliveries } from './webhooks.js';

type Limits = Extract<Live['events'][number], { type: 'refinement.queued' }>['data']['limits'];

export function RequestView({ id, snapshot, live, session }: View) {
  const { value, failure } = useLoaded((signal) => hone.request<RefinementRequest>(`/v1/refinements/${id}/request`, { signal }), [id]);
  if (!value) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  return (
    <>
      <Texts of={value} />
      <Criteria of={value} />
      <Validators of={value} />
      <LimitsTable of={value} live={live} snapshot={snapshot} />
      <ModelsTable live={live} />
      <Further of={value} />
      {value.webhook && <Deliveries key={snapshot.status} of={`/v1/refinements/${id}`} session={session} />}
      <section>
        <h2>As JSON</h2>
        <p class="quiet">As it was received, with its preset and all defaults; secrets are masked.</p>
        <Json of={value} />
      </section>
    </>
  );
}

function Texts({ of }: { of: RefinementRequest }) {
  const draft = textOf(of.draft);
  return (
    <section>
      <h2>Task</h2>
      {of.task ? <Text of={of.task} /> : <p class="quiet">No task: the draft is to be improved.</p>}
      {draft && (
        <Unfolded title={`Draft that was given, ${counted(draft)}`}>
          <Text of={draft} />
        </Unfolded>
      )}
      {of.feedback && (
        <>
          <h3>Feedback on the draft</h3>
          <Text of={of.feedback} />
          {(of.spans ?? []).length > 0 && (
            <p class="quiet">
              About: <Names of={(of.spans ?? []).map((it) => it.quote ?? `characters ${it.start} to ${it.end}`)} />
            </p>
          )}
        </>
      )}
      {(of.context ?? []).map((it) => (
        <Unfolded title={
            <>
              Document <Name of={it.name} />, {counted(it.text)}
            </>
          }>
          <Text of={it.text} />
        </Unfolded>
      ))}
    </section>
  );
}

const counted = (text: string): string => `${text.length.toLocaleString('en')} characters`;

/** Something long that is drawn only once it is unfolded. */
function Unfolded({ title, children }: { title: preact.ComponentChildren; children: preact.ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {isOpen && children}
    </details>
  );
}

function Criteria({ of }: { of: RefinementRequest }) {
  const panel = of.critics?.panel ?? [];
  const samples = of.critics?.samples ?? 1;
  const { criteria } = of;
  return (
    <section>
      <h2>Judged on</h2>
      {criteria === 'auto' && <p>Criteria that a critic lists for the task.</p>}
      {!criteria?.length && <p>Quality: whether the text does what the task asks, correctly and clearly.</p>}
      {Array.isArray(criteria) && criteria.length > 0 && (
        <Scrolled label="Criteria">
          <thead>
            <tr>
              <th>Criterion</th>
              <th>Weight</th>
              <th>Floor</th>
              <th>Description</th>
            </tr>
          </thead>
          <tbody>
            {criteria.map((it) => (
              <tr>
                <th scope="row">
                  <Name of={it.name} />
                </th>
                <td>{it.weight ?? 1}</td>
                <td>{scoreText(it.floor)}</td>
                <td>
                  <Name of={it.description} />
                  {it.examples?.length ? <small class="quiet"> {it.examples.length} scored examples</small> : null}
                </td>
              </tr>
            ))}
          </tbody>
        </Scrolled>
      )}
      {(panel.length > 0 || samples > 1) && (
        <p>
          {panel.length > 0 && (
            <>
              Critics: <Names of={panel.map((it) => it.name)} />.{' '}
            </>
          )}
          {samples > 1 && `Each is asked ${samples} times.`}
        </p>
      )}
    </section>
  );
}

function Validators({ of }: { of: RefinementRequest }) {
  const validators = of.validators ?? [];
  if (!validators.length) return null;
  return (
    <section>
      <h2>Validators</h2>
      <Scrolled label="Validators">
        <thead>
          <tr>
            <th>Kind</th>
            <th>If it fails</th>
            <th>Parameters</th>
          </tr>
        </thead>
        <tbody>
          {validators.map(({ kind, on_fail, ...rest }) => (
            <tr>
              <th scope="row">{kind}</th>
              <td>{on_fail}</td>
              <td>
                {Object.entries(rest)
                  .filter(([, value]) => !isEmpty(value))
                  .map(([name, value], at) => (
                    <>
                      {at > 0 && ', '}
                      {name}: <Name of={shortened(JSON.stringify(value))} />
                    </>
                  ))}
              </td>
            </tr>
          ))}
        </tbody>
      </Scrolled>
    </section>
  );
}

const shortened = (text: string): string => (text.length > 300 ? `${text.slice(0, 300)}…` : text);

/** The limits as requested, and as changed since. */
function LimitsTable({ of, live, snapshot }: { of: RefinementRequest; live: Live; snapshot: Snapshot }) {
  const { threshold, max_iterations, stop } = of;
  const asked: Record<string, unknown> = { threshold, max_iterations, ...stop };
  let inForce: Record<string, unknown> = {};
  for (const { data } of live.events) if ('limits' in data) inForce = data.limits as Limits;
  inForce = { ...asked, ...inForce, threshold: snapshot.threshold, max_iterations: snapshot.max_iterations };
  const isChanged = Object.keys(asked).some((name) => inForce[name] !== asked[name]);
  return (
    <section>
      <h2>Limits</h2>
      <Scrolled label="Limits">
        <thead>
          <tr>
            <th>Limit</th>
            <th>Requested</th>
            {isChanged && <th>Now in force</th>}
          </tr>
        </thead>
        <tbody>
          {Object.entries(asked).map(([name, value]) => (
            <tr>
              <th scope="row">{name}</th>
              <td>{valueText(value)}</td>
              {isChanged && (
                <td>{inForce[name] === value ? valueText(value) : <strong>{valueText(inForce[name])}</strong>}</td>
              )}
            </tr>
          ))}
        </tbody>
      </Scrolled>
    </section>
  );
}

const valueText = (value: unknown): string =>
  value == null ? 'none' : typeof value === 'boolean' ? (value ? 'yes' : 'no') : typeof value === 'number' ? value.toLocaleString('en') : String(value);

function ModelsTable({ live }: { live: Live }) {
  const queued = live.events.find((it) => it.type === 'refinement.queued');
  if (queued?.type !== 'refinement.queued') return null;
  const { models, fallbacks } = queued.data;
  return (
    <section>
      <h2>Models</h2>
      <Scrolled label="Models">
        <thead>
          <tr>
            <th>Role</th>
            <th>Model</th>
            <th>Fallbacks</th>
          </tr>
        </thead>
        <tbody>
          {Object.entries(models).map(([role, model]) => (
            <tr>
              <th scope="row">{role}</th>
              <td>{model}</td>
              <td>{fallbacks?.[role]?.join(', ') ?? ''}</td>
            </tr>
          ))}
        </tbody>
      </Scrolled>
    </section>
  );
}

const SHOWN = new Set(['task', 'draft', 'feedback', 'spans', 'context', 'criteria', 'critics', 'validators', 'threshold', 'max_iterations', 'stop', 'models']);

const isEmpty = (value: unknown): boolean =>
  value === null || value === '' || (typeof value === 'object' && Object.values(value as object).every(isEmpty));

/** Everything else that is set. */
function Further({ of }: { of: RefinementRequest }) {
  const rest = Object.entries(of).filter(([name, value]) => !SHOWN.has(name) && !isEmpty(value));
  return (
    <section>
      <h2>Settings</h2>
      <Scrolled label="Settings">
        <thead>
          <tr>
            <th>Setting</th>
            <th>Value</th>
          </tr>
        </thead>
        <tbody>
          {rest.map(([name, value]) => (
            <tr>
              <th scope="row">{name}</th>
              <td>{typeof value === 'object' ? shortened(jsonOf(value)) : valueText(value)}</td>
            </tr>
          ))}
        </tbody>
      </Scrolled>
    </section>
  );
}

/** A table that scrolls by itself where it is wider than the page. */
function Scrolled({ label, children }: { label: string; children: preact.ComponentChildren }) {
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={label}>
      <table>{children}</table>
    </div>
  );
}

function Json({ of }: { of: unknown }) {
  const [isOpen, setOpen] = useState(false);
  if (!isOpen) return <button onClick={() => setOpen(true)}>Show the JSON</button>;
  const text = jsonOf(of, 2);
  return (
    <>
      <Copy text={text} label="Copy the JSON" />
      <Text of={text} />
    </>
  );
}
