/** The pages of an operator: presets, webhooks, keys, tenants, audit; and their way from one to the other. */
import type { ComponentChildren } from 'preact';
import type { Session } from './api.js';
import { AuditPage } from './audit.js';
import { CostPage } from './cost.js';
import { EndpointsPage } from './endpoints.js';
import { InsightsPage } from './insights.js';
import { KeysPage } from './keys.js';
import { PresetsPage } from './presets.js';
import { hrefOf, Link } from './router.js';
import { TenantsPage } from './tenants.js';
import { useTitle } from './title.js';

export interface OfSettings {
  query: URLSearchParams;
  session: Session;
}

interface Part {
  place: string;
  title: string;
  page: (of: OfSettings) => ComponentChildren;
  /** Why one needs the scope `admin` for it. */
  admin?: string;
}

const PARTS: Part[][] = [
  [
    { place: 'cost', title: 'Cost', page: (of) => <CostPage {...of} /> },
    { place: 'insights', title: 'Insights', page: (of) => <InsightsPage {...of} /> },
  ],
  [
    { place: 'presets', title: 'Presets', page: (of) => <PresetsPage {...of} /> },
    { place: 'webhooks', title: 'Webhooks', page: (of) => <EndpointsPage {...of} /> },
    { place: 'keys', title: 'Keys', page: (of) => <KeysPage {...of} />, admin: 'A key lets a program or a person in: it has a tenant, and scopes that say what it may do.' },
    { place: 'tenants', title: 'Tenants', page: (of) => <TenantsPage {...of} />, admin: 'A tenant sees its own texts only. Quotas bound what it may use.' },
    { place: 'audit', title: 'Audit', page: (of) => <AuditPage {...of} />, admin: 'The log of who changed what, and when; it holds no texts.' },
  ],
];

export function Settings({ place, ...of }: OfSettings & { place: string }) {
  const parts = PARTS.find((them) => them.some((it) => it.place === place)) ?? [];
  const part = parts.find((it) => it.place === place);
  return (
    <>
      <nav class="tabs" aria-label={parts[0]?.place === 'cost' ? 'Figures' : 'Settings'}>
        {parts.map((it) => (
          <Link href={hrefOf(it.place)} aria-current={it === part ? 'page' : undefined}>
            {it.title}
          </Link>
        ))}
      </nav>
      {part?.admin && !of.session.scopes.includes('admin') ? <NeedsAdmin part={part} session={of.session} /> : part?.page(of)}
    </>
  );
}

/** Says how one comes to see a page for administrators. */
function NeedsAdmin({ part, session }: { part: Part; session: Session }) {
  useTitle(part.title);
  return (
    <>
      <h1>{part.title}</h1>
      <div class="empty">
        <p>
          <strong>This page is for administrators.</strong> {part.admin}
        </p>
        <p>
          {session.key_id ? 'Your key lacks the scope “admin”. Sign in with one that has it, or make one' : 'Make a key with the scope “admin”'} on the machine of the
          server: <code>hone keys create --admin</code>
          {session.is_open && '. From then on everybody needs a key.'}
        </p>
      </div>
    </>
  );
}
