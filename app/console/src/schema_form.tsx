/** A form made from a JSON Schema (draft 2020-12, as pydantic writes it): what is left empty is left out. */
import { type ComponentChildren, createContext, h } from 'preact';
import { useContext, useId } from 'preact/hooks';
import { Committed, localTime } from './parts.js';

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string;
  title?: string;
  description?: string;
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  format?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  minLength?: number;
  maxLength?: number;
  maxItems?: number;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  patternProperties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  discriminator?: { propertyName: string; mapping: Record<string, string> };
}

type Members = Record<string, unknown>;

interface Form {
  /** The schema with all definitions. */
  schema: Schema;
  /** What is wrong, by JSON Pointer. */
  errors: Map<string, string>;
  /** Suggestions for names of models. */
  models: string;
}

export const FormContext = createContext<Form>({ schema: {}, errors: new Map(), models: '' });

const LONG_TEXT = 1_000;
const WORDS: Record<string, string> = { usd: '(US dollars)', s: '(seconds)', ids: 'IDs', url: 'URL', json: 'JSON', sql: 'SQL' };

/** Return a name as a title: `max_cost_usd` becomes "Max cost (US dollars)". */
export function titleOf(name: string): string {
  const words = name.split('_').map((it, at) => (at ? (WORDS[it] ?? it) : it));
  const text = words.join(' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const pointerTo = (parent: string, name: string | number): string =>
  `${parent}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`;

/** Return a schema without references and without `null`, which stands for what is left out. */
function resolved(root: Schema, schema: Schema): Schema {
  let found = schema;
  for (let $ref = found.$ref; $ref; $ref = found.$ref) {
    const { $ref: _, ...beside } = found;
    found = { ...root.$defs?.[$ref.slice('#/$defs/'.length)], ...beside };
  }
  const some = found.anyOf?.filter((it) => it.type !== 'null');
  if (some && found.anyOf && some.length < found.anyOf.length) {
    const { anyOf: _, ...rest } = found;
    if (some.length > 1) return { ...rest, anyOf: some };
    return resolved(root, { ...some[0], ...withoutDefault(rest) });
  }
  return found;
}

function withoutDefault(schema: Schema): Schema {
  const { default: given, ...rest } = schema;
  return given === null ? rest : schema;
}

interface FieldProperties {
  name: string;
  schema: Schema;
  value: unknown;
  onChange: (value: unknown) => void;
  pointer: string;
  /** Whether an empty field is an error. */
  isRequired?: boolean;
}

/** The field, or the fields, of one value. */
export function Field(properties: FieldProperties) {
  const { schema: root } = useContext(FormContext);
  const schema = resolved(root, properties.schema);
  const given = { ...properties, schema, value: properties.value ?? undefined };
  if (schema.const !== undefined) return null;
  if (schema.enum) return <Choice {...given} />;
  if (schema.discriminator) return <Kind {...given} />;
  if (schema.oneOf ?? schema.anyOf) return <Variants {...given} />;
  if (schema.type === 'boolean') return <Choice {...given} schema={{ ...schema, enum: [true, false] }} />;
  if (schema.type === 'array') return <List {...given} />;
  if (schema.properties) return <Members {...given} />;
  if (schema.type === 'object') return <Pairs {...given} />;
  return <Text {...given} />;
}

/** A label, what it is about, and what is wrong with it; the control is a function of their ids. */
function Labelled({ name, schema, pointer, children }: FieldProperties & { children: (ids: Ids) => ComponentChildren }) {
  const { errors } = useContext(FormContext);
  const id = useId();
  const error = errors.get(pointer);
  const about = [schema.description && `${id}-about`, error && `${id}-error`].filter(Boolean).join(' ');
  return (
    <div class={`field ${error ? 'wrong' : ''}`} data-pointer={pointer}>
      <label for={id}>{titleOf(name)}</label>
      {children({ id, 'aria-invalid': Boolean(error), 'aria-describedby': about || undefined })}
      {error && (
        <p id={`${id}-error`} class="error">
          {error}
        </p>
      )}
      {schema.description && (
        <p id={`${id}-about`} class="about">
          {plain(schema.description)}
        </p>
      )}
    </div>
  );
}

interface Ids {
  id: string;
  'aria-invalid': boolean;
  'aria-describedby': string | undefined;
}

/** A description for people: without marks of code, and without the papers that programs follow. */
const plain = (text: string): string => text.replaceAll(/ \(arXiv [^)]*\)|`/g, '').replaceAll(/\s+/g, ' ');

function Text(properties: FieldProperties) {
  const { schema, value, onChange, isRequired, pointer } = properties;
  const { models } = useContext(FormContext);
  const isNumber = schema.type === 'number' || schema.type === 'integer';
  const placeholder = schema.default === undefined || schema.default === '' ? undefined : String(schema.default);
  const change = (event: { currentTarget: HTMLInputElement | HTMLTextAreaElement }) => {
    const text = event.currentTarget.value;
    if (text === '') onChange(isRequired && !isNumber ? '' : undefined);
    else if (schema.format === 'date-time') onChange(new Date(text).toISOString());
    else onChange(isNumber ? Number(text) : text);
  };
  const isLong = schema.type === 'string' && !schema.format && (schema.maxLength ?? Infinity) >= LONG_TEXT && !isAddress(properties.name);
  return (
    <Labelled {...properties}>
      {(ids) =>
        isLong ? (
          <textarea {...ids} rows={4} required={isRequired} placeholder={placeholder} value={asText(value)} onInput={change} />
        ) : (
          <Input
            {...ids}
            type={isNumber ? 'number' : schema.format === 'date-time' ? 'datetime-local' : schema.format === 'password' ? 'password' : 'text'}
            autoComplete="off"
            list={pointer.startsWith('/models/') && !isNumber ? models : undefined}
            step={schema.type === 'integer' ? 1 : 'any'}
            min={schema.minimum ?? schema.exclusiveMinimum}
            max={schema.maximum}
            required={isRequired}
            placeholder={placeholder}
            value={schema.format === 'date-time' ? localTime(value) : asText(value)}
            onInput={change}
          />
        )
      }
    </Labelled>
  );
}

interface InputProperties {
  type: string;
  value: string;
  onInput: (event: { currentTarget: HTMLInputElement }) => void;
  [attribute: string]: unknown;
}

/** An input whose type is known only when it is made. */
const Input = (properties: InputProperties) => h('input', properties as never);

const isAddress = (name: string): boolean => name === 'url';
const asText = (value: unknown): string => (value === undefined || value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value));

const WORD_OF: Record<string, string> = { true: 'yes', false: 'no' };
const wordOf = (value: unknown): string => WORD_OF[String(value)] ?? String(value);

function Choice(properties: FieldProperties) {
  const { schema, value, onChange, isRequired } = properties;
  const values = schema.enum ?? [];
  return (
    <Labelled {...properties}>
      {(ids) => (
        <select
          {...ids}
          value={String(values.indexOf(value))}
          onChange={(event) => onChange(values[Number(event.currentTarget.value)])}
        >
          <option value="-1">{isRequired ? 'choose' : schema.default === undefined ? 'default' : `default: ${wordOf(schema.default)}`}</option>
          {values.map((it, at) => (
            <option value={String(at)}>{wordOf(it)}</option>
          ))}
        </select>
      )}
    </Labelled>
  );
}

/** One of several objects, told apart by a member such as `kind`. */
function Kind(properties: FieldProperties) {
  const { schema, value, onChange, pointer, isRequired } = properties;
  const { schema: root } = useContext(FormContext);
  const { propertyName, mapping } = schema.discriminator ?? { propertyName: 'kind', mapping: {} };
  const kind = String((value as Members | undefined)?.[propertyName] ?? '');
  const initial = String((schema.default as Members | undefined)?.[propertyName] ?? '');
  const chosen = mapping[kind] ? resolved(root, { $ref: mapping[kind] }) : undefined;
  const about = { ...schema, description: chosen?.description?.split('\n\n')[0] ?? '' };
  return (
    <div class="group">
      <Labelled {...properties} schema={about}>
        {(ids) => (
          <select
            {...ids}
            value={kind}
            onChange={(event) => onChange(event.currentTarget.value ? { [propertyName]: event.currentTarget.value } : undefined)}
          >
            <option value="">{isRequired ? 'choose' : initial ? `default: ${initial}` : 'none'}</option>
            {Object.keys(mapping).map((it) => (
              <option>{it}</option>
            ))}
          </select>
        )}
      </Labelled>
      {chosen && (
        <Properties schema={chosen} value={(value ?? {}) as Members} pointer={pointer} onChange={onChange} without={[propertyName]} />
      )}
    </div>
  );
}

/** One of several forms of a value, such as a word or a list. */
function Variants(properties: FieldProperties) {
  const { schema, value, onChange, name, pointer } = properties;
  const { schema: root } = useContext(FormContext);
  const variants = (schema.oneOf ?? schema.anyOf ?? []).map((it) => resolved(root, it));
  const found = variants.findIndex((it) => fits(it, value));
  const at = value === undefined ? -1 : found;
  const chosen = variants[at];
  return (
    <div class="group">
      <Labelled {...properties}>
        {(ids) => (
          <select {...ids} value={String(at)} onChange={(event) => onChange(first(variants[Number(event.currentTarget.value)]))}>
            <option value="-1">default</option>
            {variants.map((it, number) => (
              <option value={String(number)}>{it.const === undefined ? wordFor(it) : String(it.const)}</option>
            ))}
          </select>
        )}
      </Labelled>
      {chosen && <Field name={name} schema={chosen} value={value} onChange={onChange} pointer={pointer} isRequired />}
    </div>
  );
}

const NAMED: Record<string, string> = { integer: 'a whole number', number: 'a number', object: 'names and values', boolean: 'yes or no' };

const wordFor = (schema: Schema): string =>
  schema.type === 'array' ? 'a list' : schema.properties ? 'with settings' : schema.enum ? schema.enum.join(' or ') : schema.type === 'string' ? 'by name' : (NAMED[schema.type ?? ''] ?? `of type ${schema.type}`);

function fits(schema: Schema, value: unknown): boolean {
  if (schema.const !== undefined) return value === schema.const;
  if (schema.enum) return schema.enum.includes(value);
  if (schema.type === 'array') return Array.isArray(value);
  if (schema.type === 'object') return typeof value === 'object' && !Array.isArray(value);
  return schema.type === 'integer' || schema.type === 'number' ? typeof value === 'number' : typeof value === schema.type;
}

/** Return what a value of a schema begins as. */
function first(schema: Schema | undefined): unknown {
  if (!schema) return undefined;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.type === 'array') return [];
  if (schema.type === 'object') return {};
  return schema.type === 'string' ? '' : (schema.minimum ?? 0);
}

function List(properties: FieldProperties) {
  const { schema, onChange, name, pointer, isRequired } = properties;
  const { schema: root, errors } = useContext(FormContext);
  const items = resolved(root, schema.items ?? {});
  const value = Array.isArray(properties.value) ? (properties.value as unknown[]) : [];
  const set = (next: unknown[]) => onChange(next.length || isRequired ? next : undefined);
  const one = titleOf(name).replace(/ies$/, 'y').replace(/([^s])s$/, '$1').replace(/criteria/i, 'Criterion');
  const error = errors.get(pointer);
  return (
    <fieldset class="group" data-pointer={pointer}>
      <legend>{titleOf(name)}</legend>
      {schema.description && <p class="about">{plain(schema.description)}</p>}
      {error && <p class="error">{error}</p>}
      {value.map((it, at) => (
        <div class="item">
          <Field
            name={`${one} ${at + 1}`}
            schema={items}
            value={it}
            pointer={pointerTo(pointer, at)}
            isRequired
            onChange={(next) => set(value.map((old, place) => (place === at ? next : old)))}
          />
          <button type="button" onClick={() => set(value.filter((_, place) => place !== at))} aria-label={`Remove ${one} ${at + 1}`}>
            Remove
          </button>
        </div>
      ))}
      {value.length < (schema.maxItems ?? Infinity) && (
        <button type="button" onClick={() => set([...value, items.discriminator ? {} : first(items)])}>
          Add {one.toLowerCase()}
        </button>
      )}
    </fieldset>
  );
}

function Members({ schema, value, onChange, name, pointer, isRequired }: FieldProperties) {
  const { errors } = useContext(FormContext);
  const members = (value ?? {}) as Members;
  const has = value !== undefined;
  const inside = (
    <>
      {schema.description && <p class="about">{plain(schema.description.split('\n\n')[0] ?? '')}</p>}
      <Properties schema={schema} value={members} pointer={pointer} onChange={onChange} />
    </>
  );
  if (isRequired)
    return (
      <fieldset class="group" data-pointer={pointer}>
        <legend>{titleOf(name)}</legend>
        {inside}
      </fieldset>
    );
  const isWrong = [...errors.keys()].some((it) => it.startsWith(`${pointer}/`) || it === pointer);
  return (
    <details class="group" open={isWrong || undefined} data-pointer={pointer}>
      <summary>
        {titleOf(name)}
        {has && ' (set)'}
      </summary>
      {errors.get(pointer) && <p class="error">{errors.get(pointer)}</p>}
      {inside}
      {has && (
        <button type="button" onClick={() => onChange(undefined)}>
          Leave out
        </button>
      )}
    </details>
  );
}

interface PropertiesOf {
  schema: Schema;
  value: Members;
  pointer: string;
  onChange: (value: unknown) => void;
  without?: string[];
  only?: string[];
}

/** The fields of an object's members. */
export function Properties({ schema, value, pointer, onChange, without = [], only }: PropertiesOf) {
  const names = (only ?? Object.keys(schema.properties ?? {})).filter((it) => !without.includes(it));
  return (
    <div class="fields">
      {names.map((name) => (
        <Field
          key={name}
          name={name}
          schema={schema.properties?.[name] ?? {}}
          value={value[name]}
          pointer={pointerTo(pointer, name)}
          isRequired={schema.required?.includes(name) ?? false}
          onChange={(next) => onChange(withMember(value, name, next))}
        />
      ))}
    </div>
  );
}

/** Return an object with a member changed, or left out. */
export function withMember(value: Members, name: string, next: unknown): Members {
  const { [name]: _, ...rest } = value;
  return next === undefined ? rest : { ...value, [name]: next };
}

/** Names and texts, such as metadata. */
function Pairs({ schema, value, onChange, name, pointer }: FieldProperties) {
  const { errors } = useContext(FormContext);
  const pairs = Object.entries((value ?? {}) as Record<string, string>);
  const isSecret = Object.values(schema.patternProperties ?? {}).some((it) => it.format === 'password');
  const set = (next: [string, string][]) => onChange(next.length ? Object.fromEntries(next) : undefined);
  return (
    <fieldset class="group" data-pointer={pointer}>
      <legend>{titleOf(name)}</legend>
      {schema.description && <p class="about">{plain(schema.description)}</p>}
      {pairs.map(([key, text], at) => (
        <div class="item pair" key={at}>
          <Committed
            aria-label={`Name ${at + 1} of ${name}`}
            aria-invalid={errors.has(pointerTo(pointer, key))}
            value={key}
            commit={(named) => set(pairs.map((it, place) => (place === at ? [named, text] : it)))}
          />
          <Input
            aria-label={`Value ${at + 1} of ${name}`}
            type={isSecret ? 'password' : 'text'}
            autoComplete="off"
            value={text}
            aria-invalid={errors.has(pointerTo(pointer, key))}
            onInput={(event) => set(pairs.map((it, place) => (place === at ? [key, event.currentTarget.value] : it)))}
          />
          <button type="button" onClick={() => set(pairs.filter((_, place) => place !== at))} aria-label={`Remove ${key || 'pair'}`}>
            Remove
          </button>
          {errors.has(pointerTo(pointer, key)) && <p class="error">{errors.get(pointerTo(pointer, key))}</p>}
        </div>
      ))}
      <button type="button" onClick={() => set([...pairs, ['', '']])} disabled={pairs.some(([key]) => !key)}>
        Add a pair
      </button>
    </fieldset>
  );
}
