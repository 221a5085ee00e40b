/** API keys: who may do what; a new one is shown once. */
import type { schema } from 'hone';
import { useState } from 'preact/hooks';
import { hone, type Session } from './api.js';
import { Ask } from './dialog.js';
import { type Column, Listed } from './table.js';
import { Copy, Name, When } from './parts.js';
import { hrefOf, Link } from './router.js';
import { type Asking, Rotation } from './rotation.js';
import { useTitle } from './title.js';

type Key = schema.ApiKey;

const SCOPES: [schema.Scope, string][] = [
  ['submit', 'submit, change and erase refinements'],
  ['read', 'read everything of its tenant'],
  ['review', 'decide reviews, and rate drafts'],
  ['admin', 'manage keys, see quotas and the audit log'],
];

/** Return why a key does not work, or nothing. */
const endOf = (of: Key): string =>
  of.revoked_at ? 'revoked' : of.expires_at && Date.parse(of.expires_at) <= Date.now() ? 'expired' : of.outdated ? 'of a former secret key' : '';

export function KeysPage({ session }: { session: Session }) {
  const [version, setVersion] = useState(0);
  const [issued, setIssued] = useState<schema.IssuedKey>();
  const [asked, setAsked] = useState<{ what: 'create' | 'rotate' | 'revoke'; of?: Key }>();
  useTitle('Keys');
  const close = () => setAsked(undefined);
  const done = () => setVersion((it) => it + 1);
  const button = (what: 'rotate' | 'revoke', of: Key) => (
    <button class={what === 'revoke' ? 'danger' : ''} aria-haspopup="dialog" aria-label={`${what === 'rotate' ? 'Rotate' : 'Revoke'} ${of.id}`} onClick={() => setAsked({ what, of })}>
      {what === 'rotate' ? 'Rotate…' : 'Revoke…'}
    </button>
  );
  const columns: Column<Key>[] = [
    { name: 'Key', value: (of) => of.id, draw: (of) => <Named of={of} own={of.id === session.key_id} /> },
    { name: 'Name', value: (of) => of.name, only: 'file' },
    { name: 'Tenant', value: (of) => of.tenant },
    { name: 'May', value: (of) => of.scopes.join(' '), draw: (of) => of.scopes.join(', ') },
    { name: 'Last used', value: (of) => of.last_used_at, draw: (of) => (of.last_used_at ? <When at={of.last_used_at} /> : 'never') },
    { name: 'Ends', value: (of) => of.revoked_at ?? of.expires_at, draw: (of) => <Ends of={of} /> },
    {
      name: 'Change',
      value: () => '',
      only: 'page',
      draw: (of) =>
        !endOf(of) && (
          <span class="actions">
            {button('rotate', of)}
            {button('revoke', of)}
          </span>
        ),
    },
  ];
  return (
    <>
      <h1>Keys</h1>
      <p class="actions">
        <button class="main" aria-haspopup="dialog" onClick={() => setAsked({ what: 'create' })}>
          New key…
        </button>
        <Link href={hrefOf('audit')}>What was done with them</Link>
      </p>
      {issued && (
        <div class="notice" role="status">
          <p>
            The new key of <Name of={issued.tenant} />, <code>{issued.id}</code>, is shown this once:
          </p>
          <p>
            <code>{issued.key}</code> <Copy text={issued.key} />
          </p>
        </div>
      )}
      <Listed path="/v1/keys" version={version} columns={columns} file="hone-keys" caption="API keys, the newest first">
        <p class="quiet">There are no keys.</p>
      </Listed>
      {asked?.what === 'create' && <Create session={session} made={setIssued} done={done} close={close} />}
      {asked?.what === 'rotate' && asked.of && <Rotate of={asked.of} made={setIssued} done={done} close={close} />}
      {asked?.what === 'revoke' && asked.of && <Revoke of={asked.of} isOwn={asked.of.id === session.key_id} done={done} close={close} />}
    </>
  );
}

function Named({ of, own }: { of: Key; own: boolean }) {
  return (
    <>
      <strong>
        <Name of={of.name || 'No name'} />
      </strong>
      {own && ' (yours)'}
      <small class="id">{of.id}</small>
    </>
  );
}

function Ends({ of }: { of: Key }) {
  const end = endOf(of);
  const at = of.revoked_at ?? of.expires_at;
  if (end) return <span class="quiet">{end} {at && <When at={at} />}</span>;
  return at ? <When at={at} /> : <>never</>;
}

interface Making extends Asking {
  made: (key: schema.IssuedKey) => void;
}

function Create({ session, made, done, close }: Making & { session: Session }) {
  const [name, setName] = useState('');
  const [tenant, setTenant] = useState(session.tenant);
  const [scopes, setScopes] = useState<schema.Scope[]>(['submit', 'read', 'review']);
  const [days, setDays] = useState('');
  const run = async () => {
    const ends = Number(days) ? { expires_at: new Date(Date.now() + Number(days) * 86_400_000).toISOString() } : {};
    made(await hone.request('/v1/keys', { method: 'POST', json: { name, tenant, scopes, ...ends } }));
    return '';
  };
  return (
    <Ask title="New key" label="Make the key" missing={scopes.length ? undefined : 'Choose what it may do.'} run={run} done={done} close={close}>
      <label>
        What is it for?
        <input value={name} maxLength={100} autoFocus placeholder="The help desk" onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      {session.tenant === 'default' && (
        <label>
          Tenant
          <input value={tenant} required onInput={(event) => setTenant(event.currentTarget.value)} />
        </label>
      )}
      <fieldset class="choices">
        <legend>It may</legend>
        {SCOPES.map(([scope, meaning]) => (
          <label class="choice">
            <input
              type="checkbox"
              checked={scopes.includes(scope)}
              onChange={(event) => setScopes(event.currentTarget.checked ? [...scopes, scope] : scopes.filter((it) => it !== scope))}
            />
            <span>
              {scope}: <span class="quiet">{meaning}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <label>
        Days until it ends; empty: it does not
        <input type="number" min="1" value={days} onInput={(event) => setDays(event.currentTarget.value)} />
      </label>
    </Ask>
  );
}

const Rotate = ({ of, ...asking }: Making & { of: Key }) => (
  <Rotation title="Replace the key by a new one?" label="Make the new key" path={`/v1/keys/${of.id}`} {...asking}>
    The new one may do the same. The old one, <code>{of.id}</code>, works for some hours more.
  </Rotation>
);

function Revoke({ of, isOwn, done, close }: Asking & { of: Key; isOwn: boolean }) {
  const run = async () => {
    await hone.request(`/v1/keys/${of.id}`, { method: 'DELETE' });
    return '';
  };
  return (
    <Ask title="Revoke the key?" label="Revoke it" isDanger run={run} done={done} close={close}>
      <p>
        <Name of={of.name || of.id} /> stops working within a second, for good.{isOwn && ' It is the key that you are signed in with.'}
      </p>
    </Ask>
  );
}
