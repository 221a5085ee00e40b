/** Who did what, the newest first. */
import type { schema } from 'hone';
import type { Session } from './api.js';
import { useNames } from './names.js';
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

const columnsOf = (nameOf: (id: string) => string): Column<schema.AuditEntry>[] => [
  { name: 'Action', value: (of) => of.action, draw: (of) => <><strong><Name of={wordsOf(of.action)} /></strong>{(of.count ?? 1) > 1 && ` ${of.count} times`}</> },
  { name: 'About', value: (of) => of.about, draw: (of) => <About of={of.about} name={nameOf(of.about)} /> },
  { name: 'By', value: (of) => of.by, draw: (of) => <About of={of.by} name={nameOf(of.by)} /> },
  { name: 'Name', value: (of) => nameOf(of.by), only: 'file' },
  { name: 'Times', value: (of) => of.count ?? 1, isNumber: true, only: 'file' },
  { name: 'When', value: (of) => of.at, draw: (of) => <When at={of.at} /> },
];

function About({ of, name }: { of: string; name: string }) {
  const place = PLACES.find(([it]) => it.test(of))?.[1];
  if (!place) return <Name of={name} />;
  return <Link href={place === 'refinements' || place === 'batches' ? hrefOf(place, of) : hrefOf(place)} title={of}><Name of={name} /></Link>;
}

export function AuditPage({ session }: { session: Session }) {
  const columns = columnsOf(useNames(session));
  useTitle('Audit');
  return (
    <>
      <h1>Audit</h1>
      <Listed path="/v1/audit" columns={columns} file="hone-audit" caption="Actions, the newest first">
        <p class="quiet">Nothing was changed yet. Every change that succeeds is recorded here before it is answered, and every key that is refused.</p>
      </Listed>
    </>
  );
}
