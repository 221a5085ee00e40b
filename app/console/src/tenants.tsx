/** Tenants: what each uses now, and the most that it may use. */
import type { schema } from 'hone';
import { useState } from 'preact/hooks';
import { hone, type Session } from './api.js';
import { Ask } from './dialog.js';
import { type Column, Listed } from './table.js';
import { costText, Name } from './parts.js';
import { hrefOf, Link } from './router.js';
import { useTitle } from './title.js';

type Tenant = schema.TenantOverview;

type Limit = Exclude<keyof schema.Quotas, 'models'>;

const LIMITS: [Limit, string][] = [
  ['requests_per_minute', 'Requests a minute'],
  ['watchers', 'Open event streams'],
  ['queued', 'Refinements that wait'],
  ['in_flight', 'Refinements in progress'],
  ['bytes_stored', 'Bytes stored'],
  ['tokens_per_day', 'Tokens a day'],
  ['cost_usd_per_day', 'Dollars a day'],
];

/** What is used, and the most if it is bounded. */
function Used({ of, most, text = (it) => it.toLocaleString('en', { notation: 'compact' }) }: { of: number; most: number | null | undefined; text?: (it: number) => string }) {
  return (
    <>
      {text(of)}
      {most != null && (
        <span class={of >= most ? 'warning inline' : 'quiet'}> of {text(most)}</span>
      )}
    </>
  );
}

export function TenantsPage({ session }: { session: Session }) {
  const [version, setVersion] = useState(0);
  const [asked, setAsked] = useState<Tenant>();
  useTitle('Tenants');
  const columns: Column<Tenant>[] = [
    { name: 'Tenant', value: (of) => of.name, draw: (of) => <strong><Name of={of.name} /></strong> },
    { name: 'Waiting', value: (of) => of.use.queued, draw: (of) => <Used of={of.use.queued} most={of.quotas.queued} />, isNumber: true },
    { name: 'In progress', value: (of) => of.use.in_flight, draw: (of) => <Used of={of.use.in_flight} most={of.quotas.in_flight} />, isNumber: true },
    { name: 'Bytes', value: (of) => of.use.bytes_stored, draw: (of) => <Used of={of.use.bytes_stored} most={of.quotas.bytes_stored} />, isNumber: true },
    { name: 'Tokens today', value: (of) => of.use.tokens_today, draw: (of) => <Used of={of.use.tokens_today} most={of.quotas.tokens_per_day} />, isNumber: true },
    { name: 'Cost today (USD)', value: (of) => of.use.cost_usd_today, draw: (of) => <Used of={of.use.cost_usd_today} most={of.quotas.cost_usd_per_day} text={costText} />, isNumber: true },
    {
      name: 'Change',
      value: () => '',
      only: 'page',
      draw: (of) =>
        session.tenant === 'default' && (
          <span class="actions">
            <button aria-haspopup="dialog" aria-label={`Quotas of ${of.name}`} onClick={() => setAsked(of)}>
              Quotas…
            </button>
          </span>
        ),
    },
  ];
  return (
    <>
      <h1>Tenants</h1>
      <p class="quiet">
        A tenant exists as soon as it has a <Link href={hrefOf('keys')}>key</Link>. What it uses now; what is spent over days is under <Link href={hrefOf('cost')}>Cost</Link>.
      </p>
      <Listed path="/v1/tenants" version={version} columns={columns} file="hone-tenants" caption="Tenants and their use">
        <p class="quiet">There are no tenants.</p>
      </Listed>
      {asked && <QuotasDialog of={asked} done={() => setVersion((it) => it + 1)} close={() => setAsked(undefined)} />}
    </>
  );
}

function QuotasDialog({ of, done, close }: { of: Tenant; done: () => void; close: () => void }) {
  const [quotas, setQuotas] = useState(of.quotas);
  const [models, setModels] = useState((of.quotas.models ?? []).join(' '));
  const run = async () => {
    const named = models.split(/[\s,]+/).filter(Boolean);
    await hone.request(`/v1/tenants/${of.name}/quotas`, { method: 'PUT', json: { ...quotas, models: named.length ? named : null } });
    return '';
  };
  return (
    <Ask title={`Quotas of ${of.name}`} label="Set the quotas" run={run} done={done} close={close}>
      <p class="quiet">They count within a second. What is empty is without a limit.</p>
      <div class="pairs">
        {LIMITS.map(([name, title]) => (
          <label>
            {title}
            <input
              type="number"
              min={name === 'cost_usd_per_day' ? '0.01' : '1'}
              step={name === 'cost_usd_per_day' ? 'any' : '1'}
              value={quotas[name] ?? ''}
              onInput={(event) => setQuotas({ ...quotas, [name]: event.currentTarget.value ? Number(event.currentTarget.value) : null })}
            />
          </label>
        ))}
      </div>
      <label>
        Models
        <input value={models} placeholder="all; or openai:* offline:editor" onInput={(event) => setModels(event.currentTarget.value)} />
      </label>
    </Ask>
  );
}
