/** The endpoints of webhooks, validators and tools: whether they answer, and the secrets that sign what they get. */
import type { schema } from 'hone';
import { useState } from 'preact/hooks';
import { hone, type Session } from './api.js';
import { Ask } from './dialog.js';
import { type Column, Listing } from './table.js';
import { Copy, Failure, Loading, Name, useLoaded, When } from './parts.js';
import { type Asking, Rotation } from './rotation.js';
import { useTitle } from './title.js';

type Endpoint = schema.RegisteredEndpoint;
type What = 'register' | 'rotate' | 'remove';

export function EndpointsPage({ session }: { session: Session }) {
  const { value, failure, reload } = useLoaded((signal) => hone.request<schema.EndpointList>('/v1/endpoints', { signal }), []);
  const [shown, setShown] = useState<Endpoint>();
  const [asked, setAsked] = useState<{ what: What; of?: Endpoint }>();
  const [refused, setRefused] = useState<unknown>();
  useTitle('Webhooks');
  const mayChange = session.scopes.includes('submit');
  const close = () => setAsked(undefined);
  const resume = (of: Endpoint) => {
    setRefused(undefined);
    hone.request(`/v1/endpoints/${of.id}/resume`, { method: 'POST' }).then(reload, setRefused);
  };
  const open = (what: What, of: Endpoint, name: string) => (
    <button class={what === 'remove' ? 'danger' : ''} aria-haspopup="dialog" aria-label={`${name} ${of.url}`} onClick={() => setAsked({ what, of })}>
      {name}…
    </button>
  );
  const columns: Column<Endpoint>[] = [
    { name: 'Endpoint', value: (of) => of.url, draw: (of) => <Named of={of} /> },
    { name: 'State', value: (of) => (of.paused_since ? 'paused' : of.failures ? 'failing' : 'works'), draw: (of) => <State of={of} /> },
    { name: 'Failures in a row', value: (of) => of.failures, isNumber: true },
    { name: 'Last delivered', value: (of) => of.delivered_at, draw: (of) => (of.delivered_at ? <When at={of.delivered_at} /> : 'never') },
  ];
  const change: Column<Endpoint> = {
    name: 'Change',
    value: () => '',
    only: 'page',
    draw: (of) => (
      <span class="actions">
        {of.paused_since && <button onClick={() => resume(of)}>Resume</button>}
        {open('rotate', of, 'New secret')}
        {open('remove', of, 'Remove')}
      </span>
    ),
  };
  return (
    <>
      <h1>Webhooks</h1>
      {mayChange && (
        <p>
          <button class="main" aria-haspopup="dialog" onClick={() => setAsked({ what: 'register' })}>
            Register an endpoint…
          </button>
        </p>
      )}
      {shown?.secret && (
        <div class="notice" role="status">
          <p>
            The secret of <Name of={shown.url} /> is shown this once:
          </p>
          <p>
            <code>{shown.secret}</code> <Copy text={shown.secret} />
          </p>
        </div>
      )}
      {[failure, refused].map((it) => it !== undefined && <Failure of={it} />)}
      {!value && failure === undefined && <Loading />}
      {value && (value.data.length ? <Listing of={value.data} columns={mayChange ? [...columns, change] : columns} file="hone-endpoints" caption="Endpoints" /> : <Nothing />)}
      {asked?.what === 'register' && <Register made={setShown} done={reload} close={close} />}
      {asked?.what === 'rotate' && asked.of && <Rotate of={asked.of} made={setShown} done={reload} close={close} />}
      {asked?.what === 'remove' && asked.of && <Remove of={asked.of} done={reload} close={close} />}
    </>
  );
}

function Nothing() {
  return (
    <div class="empty">
      <p>
        <strong>No endpoint is registered.</strong> A request with <code>{'"webhook": {"url": …}'}</code> tells your server when it ends or waits for a review. Register the
        address here to learn the secret by which your server knows that a call is Hone’s.
      </p>
      <p>The page of a refinement shows its deliveries, under Request.</p>
    </div>
  );
}

function Named({ of }: { of: Endpoint }) {
  return (
    <>
      <strong>
        <Name of={of.url} />
      </strong>
      <small class="id">{of.id}</small>
    </>
  );
}

function State({ of }: { of: Endpoint }) {
  if (of.paused_since)
    return (
      <span class="warning inline">
        paused <When at={of.paused_since} />
      </span>
    );
  const signs = of.previous_until && Date.parse(of.previous_until) > Date.now();
  return (
    <>
      {of.failures ? 'failing' : 'works'}
      {signs && of.previous_until && (
        <small class="quiet">
          the old secret signs too, until <When at={of.previous_until} />
        </small>
      )}
    </>
  );
}

interface Making extends Asking {
  made: (endpoint: Endpoint) => void;
}

function Register({ made, done, close }: Making) {
  const [url, setUrl] = useState('');
  const run = async () => {
    made(await hone.request('/v1/endpoints', { method: 'POST', json: { url } }));
    return '';
  };
  return (
    <Ask title="Register an endpoint" label="Register it" run={run} done={done} close={close}>
      <label>
        Address
        <input type="url" required autoFocus value={url} placeholder="https://example.com/hone" onInput={(event) => setUrl(event.currentTarget.value)} />
      </label>
    </Ask>
  );
}

const Rotate = ({ of, ...asking }: Making & { of: Endpoint }) => (
  <Rotation title="Give it a new secret?" label="Make a new secret" path={`/v1/endpoints/${of.id}`} {...asking}>
    Calls of <Name of={of.url} /> are signed with both secrets for some hours.
  </Rotation>
);

function Remove({ of, done, close }: Asking & { of: Endpoint }) {
  const run = async () => {
    await hone.request(`/v1/endpoints/${of.id}`, { method: 'DELETE' });
    return '';
  };
  return (
    <Ask title="Remove the endpoint?" label="Remove it" isDanger run={run} done={done} close={close}>
      <p>
        <Name of={of.url} /> is forgotten. Requests that name it are still answered to it, under the same secret.
      </p>
    </Ask>
  );
}
