/** Everything in a request but its text and what should be better: a form made from the schema of requests, and the same as code. */
import type { RefinementRequest, schema as types } from 'hone';
import { useEffect, useState } from 'preact/hooks';
import { hone, root } from './api.js';
import { inCurl, inPython, inTypeScript, jsonOf } from './code.js';
import { Failure, Loading, useLoaded } from './parts.js';
import { hrefOf, Link, useRoute } from './router.js';
import { FormContext, Properties, type Schema, withMember } from './schema_form.js';
import { TITLE } from './title.js';

type Request = Record<string, unknown>;

const TEXTS = ['draft', 'task', 'preset'];
const MAIN = ['context', 'criteria', 'strategy', 'validators'];
const LIMITS = ['threshold', 'max_iterations', 'stop', 'models', 'review'];

interface Shown extends OfRequest {
  /** What is wrong, by the JSON Pointer of a field. */
  errors: Map<string, string>;
  /** Called once the fields are there. */
  ready: () => void;
}

export function More({ request, setRequest, errors, ready }: Shown) {
  const { value: schema, failure } = useLoaded((signal) => hone.request<Schema>('/console/schema', { signal }), []);
  const { value: models } = useLoaded((signal) => hone.request<types.ModelList>('/v1/models', { signal }), []);
  useEffect(() => schema && ready(), [schema]);
  if (!schema) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  const properties = schema.properties ?? {};
  const others = Object.keys(properties).filter((it) => ![...TEXTS, ...MAIN, ...LIMITS].includes(it));
  const change = (next: unknown) => setRequest(next as Request);
  const fields = (only: string[]) => <Properties schema={schema} value={request} pointer="" onChange={change} only={only} />;
  return (
    <FormContext.Provider value={{ schema, errors, models: 'models' }}>
      <datalist id="models">{[...namesOf(models)].map((it) => <option value={it} />)}</datalist>
      <Title request={request} setRequest={setRequest} />
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
      <AsCode of={request} />
    </FormContext.Provider>
  );
}

/** The models that can be called and are known by name: all of a provider, or those with a price. */
const namesOf = (models?: types.ModelList): Set<string> =>
  new Set(models?.data.filter((it) => !it.missing).flatMap((it) => [...it.names, ...it.priced.map((priced) => priced.model)]));

/** A name for people, which the metadata has; without one it is the first words of the text. */
function Title({ request, setRequest }: OfRequest) {
  const metadata = (request['metadata'] ?? {}) as Record<string, unknown>;
  const name = (title: string) => {
    const { [TITLE]: _, ...others } = metadata;
    const named = title ? { ...others, [TITLE]: title } : others;
    setRequest(withMember(request, 'metadata', Object.keys(named).length ? named : undefined));
  };
  return (
    <label>
      Title
      <input
        value={String(metadata[TITLE] ?? '')}
        placeholder="The first words of the text"
        maxLength={80}
        onInput={(event) => name(event.currentTarget.value)}
      />
    </label>
  );
}

interface OfRequest {
  request: Request;
  setRequest: (next: Request) => void;
}

/** The form of a preset's name. */
const PRESET_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** Named defaults: choose one, or save what the form has as one. */
function Presets({ request, setRequest }: OfRequest) {
  const { value, reload } = useLoaded((signal) => hone.request<types.PresetList>('/v1/presets', { signal }), []);
  const [name, setName] = useState(useRoute().query.get('edit') ?? '');
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
  return (
    <div class="presets">
      <label>
        Preset
        <select value={chosen} onChange={(event) => setRequest(withMember(request, 'preset', event.currentTarget.value || undefined))}>
          <option value="">none named</option>
          {value?.data.map((it) => <option>{it.name}</option>)}
        </select>
      </label>
      <label>
        Save the settings below as
        <input
          value={name}
          placeholder="support-mail"
          maxLength={64}
          onInput={(event) => setName(event.currentTarget.value.toLowerCase().replace(/\s+/g, '-'))}
        />
      </label>
      <button type="button" disabled={!PRESET_NAME.test(name)} onClick={save}>
        Save preset
      </button>
      <Link href={hrefOf('presets')}>All presets</Link>
      <span role="status" class="quiet">
        {name && !PRESET_NAME.test(name) ? 'A name has small letters, digits, “.”, “_” and “-”, and begins with a letter or a digit.' : said}
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
