/** Submit a text: a form made from the schema of requests, what it costs, and the same as code. */
import { ApiError, type RefinementRequest, type schema as types } from 'hone';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { hone, root, type Session } from './api.js';
import { inCurl, inPython, inTypeScript, jsonOf } from './code.js';
import { costText, Failure, Loading, useLoaded } from './parts.js';
import { isLasting, reading } from './reading.js';
import { hrefOf, navigate } from './router.js';
import { FormContext, Properties, type Schema, withMember } from './schema_form.js';
import { isolated, useTitle } from './title.js';

type Request = Record<string, unknown>;

const MAIN = ['draft', 'task', 'context', 'criteria', 'strategy', 'validators'];
const LIMITS = ['threshold', 'max_iterations', 'stop', 'models', 'review'];
const KEPT = 'hone.request';
const SETTLED_MS = 600;
const MASKED = '**********';

export function SubmitPage({ from, session }: { from: string | null; session: Session }) {
  const { value: schema, failure } = useLoaded((signal) => hone.request<Schema>('/console/schema', { signal }), []);
  const copied = useLoaded(
    () => (from ? hone.request<Request>(`/v1/refinements/${encodeURIComponent(from)}/request`) : Promise.resolve(null)),
    [from],
  );
  useTitle('New refinement', from && `from ${isolated(from)}`);
  if (!session.scopes.includes('submit'))
    return <p role="alert">This key may not submit: it lacks the scope “submit”. An operator makes another one.</p>;
  return (
    <>
      <h1>New refinement</h1>
      {(failure ?? copied.failure) !== undefined && <Failure of={failure ?? copied.failure} />}
      {(!schema || copied.value === undefined) && failure === undefined && <Loading />}
      {schema && copied.value !== undefined && <RequestForm key={from ?? ''} schema={schema} from={copied.value} keptAs={`${KEPT} ${session.tenant} ${session.key_id ?? ''}`} />}
    </>
  );
}

function RequestForm({ schema, from, keptAs }: { schema: Schema; from: Request | null; keptAs: string }) {
  const sentAs = `${keptAs} sent`;
  const [request, setRequest] = useState<Request>(() => (isOfSent() ? kept(sentAs) : from ? withoutSecrets(from)[0] : kept(keptAs)));
  const first = useRef(request); // what is not changed need not be kept, such as what was sent
  const [failure, setFailure] = useState<unknown>();
  const [isSending, setSending] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  // The same request is submitted once, however often the button is pressed.
  const key = useMemo(() => [...crypto.getRandomValues(new Uint8Array(16))].join('-'), [request]);
  const errors = useMemo(() => errorsOf(failure), [failure]);
  const { value: models } = useLoaded((signal) => hone.request<{ data: { model: string }[] }>('/v1/models', { signal }), []);
  const unkept = useRef<() => void>(undefined);
  unkept.current = request === first.current ? undefined : () => keep(keptAs, request);
  useEffect(() => {
    if (request !== first.current && isOfSent()) history.replaceState(null, '');
    const timer = setTimeout(() => unkept.current?.(), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [request]);
  useEffect(() => () => unkept.current?.(), []);
  useEffect(() => {
    const wrong = form.current?.querySelector<HTMLElement>('[aria-invalid="true"]');
    wrong?.closest('details')?.setAttribute('open', '');
    wrong?.focus();
  }, [errors]);
  const change = (next: unknown) => setRequest(next as Request);
  const submit = (event: Event) => {
    event.preventDefault();
    if (isSending) return;
    setSending(true);
    setFailure(undefined);
    const sent = hone.request<types.Snapshot>('/v1/refinements', { method: 'POST', json: request, headers: { 'Idempotency-Key': key } });
    sent
      .then((made) => {
        sessionStorage.removeItem(keptAs);
        keep(sentAs, request);
        history.replaceState({ isSent: true }, ''); // the way back leads to what was sent
        unkept.current = undefined;
        navigate(hrefOf('refinements', made.id));
      }, setFailure)
      .finally(() => setSending(false));
  };
  const properties = schema.properties ?? {};
  const others = Object.keys(properties).filter((it) => ![...MAIN, ...LIMITS, 'preset'].includes(it));
  const fields = (only: string[]) => <Properties schema={schema} value={request} pointer="" onChange={change} only={only} />;
  return (
    <FormContext.Provider value={{ schema, errors, models: 'models' }}>
      <datalist id="models">{models?.data.map((it) => <option value={it.model} />)}</datalist>
      {from && withoutSecrets(from)[1] && <p class="notice">Secrets of the other request are not shown to anybody: fill them in again.</p>}
      <form ref={form} class="request" onSubmit={submit} noValidate>
        <Presets request={request} setRequest={setRequest} />
        <Files request={request} setRequest={setRequest} />
        {fields(MAIN)}
        <section>
          <h2>Limits, models, review</h2>
          {fields(LIMITS)}
        </section>
        <details class="group" open={others.some((it) => request[it] !== undefined) || undefined}>
          <summary>Everything else</summary>
          {fields(others)}
        </details>
        <AsJson request={request} setRequest={setRequest} />
        {failure !== undefined && <Failure of={failure} />}
        <div class="send">
          <Estimate of={request} />
          <button class="main" disabled={isSending}>
            {isSending ? 'Submitting…' : 'Submit'}
          </button>
          <button type="button" onClick={() => setRequest({})}>
            Empty the form
          </button>
        </div>
        <AsCode of={request} />
      </form>
    </FormContext.Provider>
  );
}

/** Whether this entry of the browser's history is of a form that was sent. */
const isOfSent = (): boolean => Boolean((history.state as { isSent?: boolean } | null)?.isSent);

/** What was typed outlives a reload, and a session that ends; each key has its own. */
function kept(name: string): Request {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? '{}') as Request;
  } catch {
    return {};
  }
}

function keep(name: string, request: Request): void {
  try {
    sessionStorage.setItem(name, JSON.stringify(request));
  } catch {
    // the browser keeps a few megabytes at most
  }
}

function errorsOf(failure: unknown): Map<string, string> {
  if (!(failure instanceof ApiError)) return new Map();
  return new Map(failure.errors.map((it) => [it.pointer, it.detail]));
}

/** Return a request without what is masked in it, and whether something was. */
function withoutSecrets(request: Request): [Request, boolean] {
  let isMasked = false;
  const strip = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(strip);
    if (typeof value !== 'object' || value === null) return value;
    const members = Object.entries(value).filter(([, it]) => {
      isMasked ||= it === MASKED;
      return it !== MASKED && it !== null;
    });
    return Object.fromEntries(members.map(([name, it]) => [name, strip(it)]));
  };
  return [strip(request) as Request, isMasked];
}

interface OfRequest {
  request: Request;
  setRequest: (next: Request) => void;
}

/** Named defaults: choose one, save what the form has as one, delete one. */
function Presets({ request, setRequest }: OfRequest) {
  const { value, reload } = useLoaded((signal) => hone.request<types.PresetList>('/v1/presets', { signal }), []);
  const [name, setName] = useState('');
  const [failure, setFailure] = useState<unknown>();
  const [said, setSaid] = useState('');
  const chosen = typeof request['preset'] === 'string' ? request['preset'] : '';
  const act = (call: Promise<unknown>, done: string) => {
    setFailure(undefined);
    call.then(() => {
      setSaid(done);
      reload();
    }, setFailure);
  };
  const save = () => {
    const { draft: _draft, task: _task, preset: _preset, ...defaults } = request;
    act(hone.request(`/v1/presets/${encodeURIComponent(name)}`, { method: 'PUT', json: defaults }), `Saved as ${name}.`);
  };
  const remove = () => {
    act(hone.request(`/v1/presets/${encodeURIComponent(chosen)}`, { method: 'DELETE' }), `Deleted ${chosen}.`);
    setRequest(withMember(request, 'preset', undefined));
  };
  return (
    <div class="presets">
      <label>
        Preset
        <select value={chosen} onChange={(event) => setRequest(withMember(request, 'preset', event.currentTarget.value || undefined))}>
          <option value="">none named</option>
          {value?.data.map((it) => <option>{it.name}</option>)}
        </select>
      </label>
      {chosen && (
        <button type="button" onClick={remove}>
          Delete this preset
        </button>
      )}
      <label>
        Save the settings below as
        <input value={name} placeholder="support-mail" onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <button type="button" disabled={!name} onClick={save}>
        Save preset
      </button>
      <span role="status" class="quiet">
        {said}
      </span>
      {failure !== undefined && <Failure of={failure} />}
    </div>
  );
}

/** Texts from files, read in the browser: the draft, or documents of the context. */
function Files({ request, setRequest }: OfRequest) {
  const [failure, setFailure] = useState<unknown>();
  const take = async (files: FileList | null, asDraft: boolean) => {
    const read = await Promise.all([...(files ?? [])].map(async (it) => ({ name: it.name, text: await textOf(it) })));
    if (!read.length) return;
    if (asDraft) return setRequest({ ...request, draft: read[0]?.text });
    setRequest({ ...request, context: [...((request['context'] as unknown[] | undefined) ?? []), ...read] });
  };
  const chosen = (asDraft: boolean) => (event: { currentTarget: HTMLInputElement }) =>
    take(event.currentTarget.files, asDraft).then(() => setFailure(undefined), setFailure);
  return (
    <div class="presets">
      <label>
        Draft from a file
        <input type="file" accept=".txt,.md,text/*" onChange={chosen(true)} />
      </label>
      <label>
        Context from files
        <input type="file" accept=".txt,.md,text/*" multiple onChange={chosen(false)} />
      </label>
      {failure !== undefined && <Failure of={failure} />}
    </div>
  );
}

async function textOf(file: File): Promise<string> {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is no text in UTF-8`);
  }
}

/** What the request costs, asked when typing has paused. */
function Estimate({ of }: { of: Request }) {
  const [estimate, setEstimate] = useState<types.RefinementEstimate | null>();
  useEffect(() => {
    setEstimate(undefined);
    if (!of['draft'] && !of['task'] && !of['preset']) return;
    const reads = reading(
      (signal) => hone.request<types.RefinementEstimate>('/v1/estimates', { method: 'POST', json: of, signal }),
      setEstimate,
      (failure) => isLasting(failure) && setEstimate(null),
    );
    const timer = setTimeout(reads.ask, SETTLED_MS);
    return () => {
      clearTimeout(timer);
      reads.end();
    };
  }, [of]);
  return (
    <p role="status" class="quiet">
      {estimate === null && 'The request is not complete, or not valid, yet.'}
      {estimate && `Expected: ${consumed(estimate.expected)}. In 95 of 100 cases at most: ${consumed(estimate.p95)}.`}
    </p>
  );
}

const consumed = (it: types.RefinementEstimate['expected']): string =>
  `${it.calls} calls, ${it.tokens.toLocaleString('en')} tokens, ${costText(it.cost_usd)}`;

/** The request as JSON, which can be edited: form and JSON say the same. */
function AsJson({ request, setRequest }: OfRequest) {
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState<string>();
  const [wrong, setWrong] = useState('');
  const edit = (next: string) => {
    setText(next);
    try {
      const read: unknown = JSON.parse(next);
      if (typeof read !== 'object' || read === null || Array.isArray(read)) throw new Error('a request is an object');
      setWrong('');
      setRequest(read as Request);
    } catch (error) {
      setWrong(`Not JSON yet${place(next, error)}: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  return (
    <details class="group" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>As JSON</summary>
      {isOpen && (
        <>
          <label>
            Request
            <textarea
              class="code"
              rows={16}
              spellcheck={false}
              aria-invalid={Boolean(wrong)}
              value={text ?? jsonOf(request, 2)}
              onInput={(event) => edit(event.currentTarget.value)}
              onBlur={() => wrong || setText(undefined)}
            />
          </label>
          {wrong && <p class="error">{wrong}</p>}
        </>
      )}
    </details>
  );
}

/** Return the line at which JSON breaks, where the browser says the position. */
function place(text: string, error: unknown): string {
  const position = /position (\d+)/.exec(String(error));
  return position ? `, line ${text.slice(0, Number(position[1])).split('\n').length}` : '';
}

const CODE: [string, (url: string, request: RefinementRequest) => string][] = [
  ['curl', inCurl],
  ['Python', inPython],
  ['TypeScript', inTypeScript],
];

/** The same request for a shell or a program. */
function AsCode({ of }: { of: Request }) {
  const [open, setOpen] = useState('');
  const [said, setSaid] = useState('');
  const written = CODE.find(([name]) => name === open)?.[1](location.origin + root, of as RefinementRequest);
  const copy = () => navigator.clipboard.writeText(written ?? '').then(() => setSaid('Copied.'), () => setSaid('Select the text to copy it.'));
  return (
    <section>
      <h2>The same as code</h2>
      <p class="actions">
        {CODE.map(([name]) => (
          <button type="button" aria-pressed={open === name} onClick={() => setOpen(open === name ? '' : name)}>
            {name}
          </button>
        ))}
        {written && (
          <button type="button" onClick={copy}>
            Copy
          </button>
        )}
        <span role="status">{said}</span>
      </p>
      {written && (
        <pre class="text code" tabIndex={0} aria-label={`The request in ${open}`}>
          {written}
        </pre>
      )}
    </section>
  );
}
