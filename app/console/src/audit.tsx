/** Who did what, the newest first. */
import type { schema } from 'hone';
import { type Column, Listed } from './table.js';
import { Name, When } from './parts.js';
import { hrefOf, Link } from './router.js';
import { useTitle } from './title.js';

const PLACES: [RegExp, string][] = [
  [/^ref_/, 'refinements'],
  [/^batch_/, 'batches'],
  [/^key_/, 'keys'],
  [/^ep_/, 'webhooks'],
];

/** Return what an operation does, such as `eraseRefinement`, in words. */
const wordsOf = (action: string): string => action.replace(/[A-Z]/g, (it) => ` ${it.toLowerCase()}`);

const COLUMNS: Column<schema.AuditEntry>[] = [
  { name: 'Action', value: (of) => of.action, draw: (of) => <strong><Name of={wordsOf(of.action)} /></strong> },
  { name: 'About', value: (of) => of.about, draw: (of) => <About of={of.about} /> },
  { name: 'By', value: (of) => of.by, draw: (of) => <About of={of.by} /> },
  { name: 'Times', value: (of) => of.count ?? 1, isNumber: true },
  { name: 'When', value: (of) => of.at, draw: (of) => <When at={of.at} /> },
];

function About({ of }: { of: string }) {
  const place = PLACES.find(([it]) => it.test(of))?.[1];
  if (!place) return <Name of={of} />;
  return <Link href={place === 'refinements' || place === 'batches' ? hrefOf(place, of) : hrefOf(place)}>{of}</Link>;
}

export function AuditPage() {
  useTitle('Audit');
  return (
    <>
      <h1>Audit</h1>
      <Listed path="/v1/audit" columns={COLUMNS} file="hone-audit" caption="Actions, the newest first">
        <p class="quiet">Nothing was changed yet. Every change that succeeds is recorded here before it is answered, and every key that is refused.</p>
      </Listed>
    </>
  );
}
