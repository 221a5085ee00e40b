/**
 * The client of Hone: refinement as an API.
 *
 *     const hone = new Hone({ url: 'http://localhost:8080' });
 *     const result = await hone.refine('In order to utilize the API, register.', { threshold: 0.9 });
 *     if (!result.passed) console.warn('not good enough:', result.reason);
 *     console.log(result.score, result.draft);
 */
import * as errors from './errors.js';
import { type Event, isTerminal, messages, readEvent } from './events.js';
import { type Result, resultOf } from './results.js';
import type * as schema from './schema.js';

export * from './errors.js';
export { type DeltaEvent, type Event, isTerminal } from './events.js';
export * from './webhooks.js';
export type * as schema from './schema.js';

export type Snapshot = schema.Snapshot;
export type { Result } from './results.js';
export type Batch = schema.Batch;
export type RefinementRequest = schema.RefinementRequest;
/** Everything in a request but the draft, which is an argument of its own. */
export type RefinementOptions = Omit<RefinementRequest, 'draft'>;

export interface HoneOptions {
  /** Where the server is; `HONE_SERVER` in Node, else http://localhost:8080. */
  url?: string | undefined;
  /** An API key or read token; `HONE_API_KEY` in Node. */
  apiKey?: string | undefined;
  /**
   * How often a request is repeated that finds no server, or is answered 408, 429, 502, 503 or 504: 8, which takes about
   * 25 s, longer where `Retry-After` says so (at most 60 s each). 0 in a handler that must answer at once. A quota that is
   * used up is not asked again.
   */
  maxRetries?: number | undefined;
  /** Milliseconds for one request: 30,000. */
  timeout?: number | undefined;
  /** Milliseconds that `wait` and `events` go on without an answer: 120,000. */
  patience?: number | undefined;
  fetch?: typeof globalThis.fetch | undefined;
}

export interface Wait {
  /** Milliseconds until TimedOut is thrown; without it, as long as it takes. */
  timeout?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface Demand {
  /**
   * Whether a result that does not pass throws NotPassed. Without a word of yours it is returned, and the reason is written
   * with console.warn; false says nothing.
   */
  mustPass?: boolean | undefined;
}

export interface Submission {
  /** The same key and request within 24 hours return the same refinement. */
  idempotencyKey?: string | undefined;
  signal?: AbortSignal | undefined;
}

interface Call {
  method?: string;
  json?: unknown;
  body?: string;
  /** Parameters of the query; an array stands for a repeated one. */
  query?: Record<string, string | number | string[] | undefined>;
  headers?: Record<string, string | undefined>;
  timeout?: number | undefined;
  /** The time at which TimedOut is thrown. */
  deadline?: number | undefined;
  signal?: AbortSignal | undefined;
}

interface Answered {
  status: number;
  headers: Headers;
  text: string;
}

/** The id of a refinement or batch, or either as it was returned. */
export type Named = string | { id: string };

const HELD_S = 25; // how long the server holds a request for news
const SILENCE_MS = 45_000; // three times the interval of the comments of an event stream
const LEAST_MS = 1000; // for an attempt, so that a wait with a timeout of 0 looks once
const LONGEST_RETRY_AFTER_MS = 60_000;
const REPEATED = new Set([408, 429, 502, 503, 504]);
/** Where a POST with an `Idempotency-Key` takes effect once, however often it is sent. */
const REPEATABLE = /^\/v1\/(refinements|batches|estimates|endpoints\/[^/]+\/rotate\b)|^\/openai\//;
/** Members by which answers are known, with their types. */
const MEMBERS = {
  id: 'string',
  data: 'object',
  line: 'number',
  threshold: 'number',
  path: 'string',
  unified: 'string',
  expected: 'object',
} as const;
/** What Node says of a connection that was not made; a browser does not say it. */
const NOT_SENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT']);

const environment = (name: string): string | undefined =>
  (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env?.[name];

/**
 * A client of one Hone server. Each POST and PATCH carries an `Idempotency-Key`, so that retries do nothing twice; where the
 * server takes none, as for API keys, what may have arrived is not repeated. All methods throw ApiError, ServerUnreachable or
 * NotHone.
 */
export class Hone {
  readonly url: string;
  readonly #headers: Record<string, string>;
  readonly #maxRetries: number;
  readonly #timeout: number;
  readonly #patience: number;
  readonly #fetch: typeof globalThis.fetch;

  constructor(options: HoneOptions = {}) {
    this.url = (options.url ?? environment('HONE_SERVER') ?? 'http://localhost:8080').replace(/\/+$/, '');
    const key = options.apiKey ?? environment('HONE_API_KEY');
    this.#headers = key ? { Authorization: `Bearer ${key}` } : {};
    this.#maxRetries = options.maxRetries ?? 8;
    this.#timeout = options.timeout ?? 30_000;
    this.#patience = options.patience ?? 120_000;
    this.#fetch = options.fetch ?? ((...call) => globalThis.fetch(...call));
  }

  /**
   * Refine a text, or write one for `task` (with `null` as draft), and return the best draft. Check `passed`: it need not
   * meet the threshold.
   *
   * Waits through restarts of the server. Throws RefinementFailed or RefinementCanceled, whose
   * `snapshot` has what there is, and NotPassed where `mustPass` is set.
   */
  async refine(
    draft: string | null,
    request: RefinementOptions = {},
    options: Wait & Submission & Demand = {},
  ): Promise<Result> {
    const deadline = deadlineOf(options.timeout);
    const submitted = await this.#submit(draft, request, options, deadline);
    return resultOf(await this.#ended(submitted, deadline, options.signal), options.mustPass);
  }

  /** Create a refinement. */
  async submit(draft: string | null, request: RefinementOptions = {}, options: Submission = {}): Promise<Snapshot> {
    return this.#submit(draft, request, options, Infinity);
  }

  #submit(draft: string | null, request: RefinementOptions, options: Submission, deadline: number): Promise<Snapshot> {
    const json = draft === null ? request : { ...request, draft };
    const headers = { 'Idempotency-Key': options.idempotencyKey };
    return this.#read('id', '/v1/refinements', { method: 'POST', json, headers, deadline, signal: options.signal });
  }

  /** Return a refinement as it is now. */
  async get(refinement: Named, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<Snapshot> {
    return this.#read('id', path(refinement), { signal });
  }

  /** Return a refinement when it has ended; `paused` is no end. */
  async wait(refinement: Named, { timeout, signal }: Wait = {}): Promise<Snapshot> {
    return this.#ended(refinement, deadlineOf(timeout), signal);
  }

  async #ended(refinement: Named, deadline: number, signal?: AbortSignal): Promise<Snapshot> {
    let late = `${this.url} has not answered in time`;
    let held: Call = {};
    for (let heard = Date.now(); ; ) {
      try {
        const answer = await this.#send(path(refinement), { ...held, deadline, signal });
        heard = Date.now();
        if (answer.status !== 304) {
          const snapshot = this.#parsed<Snapshot>('id', answer.text);
          if (['succeeded', 'failed', 'canceled'].includes(snapshot.status)) return snapshot;
          late = `${snapshot.id} is ${snapshot.status}: it has not ended in time`;
          held = { headers: { 'If-None-Match': `"${snapshot.last_event}"` }, timeout: SILENCE_MS };
        }
      } catch (error) {
        if (error instanceof errors.TimedOut) throw new errors.TimedOut(late, { cause: error });
        if (signal?.aborted || !isPassing(error) || Date.now() - heard > this.#patience) throw error;
        await sleep(pause(1), signal);
      }
      const left = Math.min(HELD_S, (deadline - Date.now()) / 1000);
      if (left <= 0) throw new errors.TimedOut(late);
      if (held.headers) held.query = { wait: Math.max(1, Math.round(left)) };
    }
  }

  /**
   * Yield each event after the one with number `after`, until the refinement has ended.
   *
   * A stream that breaks is resumed where it broke: no event is missed or seen twice, also across
   * restarts of the server. With `deltas`, also pieces of text as they are written; with
   * `excerpts`, long texts in events are cut.
   */
  async *events(
    refinement: Named,
    {
      after = 0,
      deltas = false,
      excerpts = false,
      signal,
    }: { after?: number; deltas?: boolean; excerpts?: boolean; signal?: AbortSignal | undefined } = {},
  ): AsyncGenerator<Event> {
    const asked = Object.entries({ deltas, excerpts }).flatMap(([name, isAsked]) => (isAsked ? `${name}=true` : []));
    let failedSince = Infinity;
    for (let failures = 0; ; ) {
      let wait = 0;
      try {
        for await (const event of this.#stream(refinement, after, asked.join('&'), signal)) {
          if (event === 'ended') return;
          failedSince = Infinity;
          if (event === 'answered') continue;
          failures = 0;
          after = Math.max(after, event.event);
          yield event;
          if (isTerminal(event)) return;
        }
      } catch (error) {
        const now = Date.now();
        failedSince = Math.min(failedSince, now);
        if (signal?.aborted || !isPassing(error) || now - failedSince > this.#patience) throw error;
        wait = retryAfter(error);
        failures += 1;
      }
      await sleep(Math.max(wait, pause(failures)), signal);
    }
  }

  /** Yield refinements, newest first, a page at a time as they are needed. */
  async *list(
    filter: { status?: string; outcome?: string; batch?: string; metadata?: Record<string, string> } = {},
  ): AsyncGenerator<Snapshot> {
    const query: Record<string, string | undefined> = { status: filter.status, outcome: filter.outcome, batch: filter.batch };
    for (const [name, value] of Object.entries(filter.metadata ?? {})) query[`metadata.${name}`] = value;
    for (let more = true; more; ) {
      const page = await this.#read<schema.SnapshotPage>('data', '/v1/refinements', { query });
      yield* page.data;
      more = page.has_more;
      query['cursor'] = page.next_cursor ?? undefined;
    }
  }

  /** Cancel it: `canceling`, then `canceled` when work has stopped. */
  async cancel(refinement: Named): Promise<Snapshot> {
    return this.#read('id', `${path(refinement)}/cancel`, { method: 'POST' });
  }

  /** End it with the best draft so far. */
  async finish(refinement: Named): Promise<Snapshot> {
    return this.#read('id', `${path(refinement)}/finish`, { method: 'POST' });
  }

  /** Put it before a reviewer after the step under way. */
  async pause(refinement: Named, json: schema.PauseRequest = {}): Promise<Snapshot> {
    return this.#read('id', `${path(refinement)}/pause`, { method: 'POST', json });
  }

  /** Change limits while it runs; return those now in force. */
  async change(refinement: Named, json: schema.LimitsChange, ifMatch?: number): Promise<schema.Limits> {
    return this.#read('threshold', path(refinement), { method: 'PATCH', json, headers: matching(ifMatch) });
  }

  /**
   * Say a person's word to a paused refinement. `ifMatch`, the `last_event` that the person saw,
   * makes a second reviewer who acts at the same time see PreconditionFailed.
   */
  async review(refinement: Named, json: schema.ReviewDecision, ifMatch?: number): Promise<Snapshot> {
    return this.#read('id', `${path(refinement)}/reviews`, { method: 'POST', json, headers: matching(ifMatch) });
  }

  /** Record a person's score for a draft. */
  async rate(refinement: Named, json: schema.RatingRequest): Promise<schema.Rating> {
    return this.#read('path', `${path(refinement)}/ratings`, { method: 'POST', json });
  }

  /** Let a failed refinement go on from its journal. */
  async retry(refinement: Named, json: schema.LimitsChange = {}): Promise<Snapshot> {
    return this.#read('id', `${path(refinement)}/retry`, { method: 'POST', json });
  }

  /** Create a refinement that starts from the result of this one, or from its draft at `options.path`. */
  async continueFrom(
    refinement: Named,
    json: RefinementOptions = {},
    options: Submission & { path?: string } = {},
  ): Promise<Snapshot> {
    const headers = { 'Idempotency-Key': options.idempotencyKey };
    const query = { path: options.path };
    return this.#read('id', `${path(refinement)}/continue`, { method: 'POST', json, headers, query, signal: options.signal });
  }

  /** Erase it and everything derived from it, in any status. */
  async erase(refinement: Named): Promise<void> {
    await this.#send(path(refinement), { method: 'DELETE' });
  }

  /** Return each draft that was judged; with `excerpts`, of long texts the beginning. */
  async iterations(refinement: Named, { excerpts = false } = {}): Promise<schema.IterationList> {
    return this.#read('data', `${path(refinement)}/iterations`, { query: { excerpts: excerpts ? 'true' : undefined } });
  }

  /** Return the difference between two iterations. */
  async diff(refinement: Named, from: number, to: number): Promise<schema.Diff> {
    return this.#read('unified', `${path(refinement)}/diff`, { query: { from, to } });
  }

  /** Return the whole story for a person, as Markdown. */
  async report(refinement: Named): Promise<string> {
    const { headers, text } = await this.#send(`${path(refinement)}/report`, {});
    if (!headers.get('Content-Type')?.startsWith('text/markdown')) throw new errors.NotHone(this.url);
    return text;
  }

  /** Return what a request would cost, without running it. */
  async estimate(draft: string | null, request: RefinementOptions = {}): Promise<schema.RefinementEstimate> {
    const json = draft === null ? request : { ...request, draft };
    return this.#read('expected', '/v1/estimates', { method: 'POST', json });
  }

  /**
   * Submit up to 10,000 requests in one; the names are their `custom_id`. Those that are invalid
   * are in `errors`; the others run.
   */
  async batch(
    requests: Record<string, RefinementRequest>,
    options: { defaults?: RefinementRequest; metadata?: Record<string, string> } & Submission = {},
  ): Promise<Batch> {
    const head = { batch: { defaults: options.defaults ?? {}, metadata: options.metadata ?? {} } };
    const lines = Object.entries(requests).map(([custom_id, request]) => ({ custom_id, request }));
    const body = [head, ...lines].map((it) => JSON.stringify(it)).join('\n');
    const headers = { 'Idempotency-Key': options.idempotencyKey, 'Content-Type': 'application/jsonl' };
    return this.#read('id', '/v1/batches', { method: 'POST', body, headers, timeout: 600_000, signal: options.signal });
  }

  /** Return a batch as it is now. */
  async getBatch(batch: Named): Promise<Batch> {
    return this.#read('id', batchPath(batch));
  }

  /** Return a batch when all of it has ended. */
  async waitForBatch(batch: Named, { timeout, signal }: Wait = {}): Promise<Batch> {
    const deadline = deadlineOf(timeout);
    for (;;) {
      const found = await this.#read<Batch>('id', batchPath(batch), { deadline, signal });
      if (found.ended_at) return found;
      const left = deadline - Date.now();
      if (left <= 0) throw new errors.TimedOut(`${found.id} is ${found.status}: it has not ended in time`);
      await sleep(Math.min(1000, left), signal);
    }
  }

  /** Yield what has ended so far, in the order of the requests. */
  async *batchResults(batch: Named): AsyncGenerator<schema.BatchResult> {
    const { text } = await this.#send(`${batchPath(batch)}/results`, { timeout: 600_000 });
    for (const line of text.split('\n')) if (line) yield this.#parsed('line', line);
  }

  /** Cancel what has not ended. */
  async cancelBatch(batch: Named): Promise<Batch> {
    return this.#read('id', `${batchPath(batch)}/cancel`, { method: 'POST' });
  }

  /** Send any request of the API, such as `('/v1/models')`; return its JSON, or the text of another kind of answer. */
  async request<Answer = unknown>(path: string, call: Call = {}): Promise<Answer> {
    const { headers, text } = await this.#send(path, call);
    const isJson = headers.get('Content-Type')?.includes('json');
    return isJson && text ? this.#parsed(null, text) : ((text || null) as Answer);
  }

  async #read<Answer>(member: keyof typeof MEMBERS, path: string, call: Call = {}): Promise<Answer> {
    return this.#parsed(member, (await this.#send(path, call)).text);
  }

  /** Return the value of a JSON; throw NotHone if it is none, or lacks the member by which such an answer is known. */
  #parsed<Answer>(member: keyof typeof MEMBERS | null, text: string): Answer {
    try {
      const value = JSON.parse(text);
      if (member === null || (value[member] !== null && typeof value[member] === MEMBERS[member])) return value;
    } catch {
      // not JSON, or null
    }
    throw new errors.NotHone(this.url);
  }

  /** Send a request until it is answered for good, to the last byte: an answer may break off too. */
  async #send(path: string, call: Call): Promise<Answered> {
    const url = new URL(this.url + path);
    for (const [name, value] of Object.entries(call.query ?? {})) {
      for (const each of [value ?? []].flat()) url.searchParams.append(name, `${each}`);
    }
    const headers = new Headers(this.#headers);
    if (call.json !== undefined) headers.set('Content-Type', 'application/json');
    for (const [name, value] of Object.entries(call.headers ?? {})) if (value) headers.set(name, value);
    const body = call.json === undefined ? (call.body ?? null) : JSON.stringify(call.json);
    const method = call.method ?? 'GET';
    if (['POST', 'PATCH'].includes(method) && !headers.has('Idempotency-Key')) headers.set('Idempotency-Key', newKey());
    const isRepeatable = method !== 'POST' || REPEATABLE.test(path);
    const deadline = call.deadline ?? Infinity;
    let mayHaveArrived = false;
    for (let failures = 1; ; failures++) {
      let error: Error;
      try {
        const left = Math.max(LEAST_MS, Math.ceil(deadline - Date.now()));
        const limit = AbortSignal.timeout(Math.min(call.timeout ?? this.#timeout, left));
        const signal = call.signal ? AbortSignal.any([limit, call.signal]) : limit;
        const init = { method, headers, body, signal, redirect: 'manual' as const };
        const response = await this.#fetch(url, init);
        const { status, headers: received } = response;
        const text = await response.text();
        if (response.ok || status === 304) return { status, headers: received, text };
        if (mayHaveArrived && method === 'DELETE' && status === 404) return { status: 204, headers: received, text: '' };
        error = problemOf(this.url, response, text);
        if (!isPassing(error)) throw error;
        mayHaveArrived ||= status !== 429;
      } catch (failure) {
        if (failure instanceof errors.HoneError || call.signal?.aborted) throw failure;
        error = unreachable(this.url, failure);
        mayHaveArrived ||= !wasNotSent(failure);
      }
      if (failures > this.#maxRetries || (mayHaveArrived && !isRepeatable)) throw error;
      const rest = Math.max(retryAfter(error), pause(failures));
      const left = deadline - Date.now();
      await sleep(Math.max(0, Math.min(rest, left)), call.signal);
      if (left <= rest) throw new errors.TimedOut(`${this.url} has not answered in time`, { cause: error });
    }
  }

  /** Yield that the server has answered, then the events of one connection; or that there are no more. */
  async *#stream(
    refinement: Named,
    after: number,
    query: string,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Event | 'answered' | 'ended'> {
    const silence = new AbortController();
    const headers = { ...this.#headers, Accept: 'text/event-stream', 'Last-Event-ID': `${after}` };
    const url = `${this.url}${path(refinement)}/events${query && `?${query}`}`;
    const either = signal ? AbortSignal.any([silence.signal, signal]) : silence.signal;
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    const alive = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        controller.enqueue(chunk);
      },
    });
    try {
      const response = await this.#fetch(url, { headers, signal: either, redirect: 'manual' });
      if (response.status === 204) return yield 'ended';
      if (!response.ok) throw problemOf(this.url, response, await response.text());
      const isStream = response.headers.get('Content-Type')?.startsWith('text/event-stream');
      if (!isStream || !response.body) throw new errors.NotHone(this.url);
      yield 'answered';
      for await (const message of messages(response.body.pipeThrough(alive))) yield readEvent(message);
    } catch (failure) {
      if (failure instanceof errors.HoneError) throw failure;
      throw failure instanceof SyntaxError ? new errors.NotHone(this.url) : unreachable(this.url, failure);
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
  }
}

/** Return the error of a response; one that is not of Hone, such as a proxy's, has no code. */
function problemOf(url: string, response: Response, text: string): errors.ApiError {
  if (response.type === 'opaqueredirect' || response.headers.has('Location')) {
    throw new errors.NotHone(url, `it redirects to ${response.headers.get('Location') ?? 'another address'}`);
  }
  let problem: errors.Problem = { detail: text.slice(0, 500) };
  try {
    const parsed = JSON.parse(text);
    if (typeof parsed.code === 'string') problem = parsed;
  } catch {
    // not JSON: the text says what there is to say
  }
  const kind = errors.CLASSES[problem.code ?? ''] ?? errors.ApiError;
  const wait = Math.min(LONGEST_RETRY_AFTER_MS, 1000 * (Number(response.headers.get('Retry-After')) || 0));
  return new kind(response.status, problem, response.headers.get('X-Request-Id'), wait);
}

/** Whether the same request may be answered otherwise a little later. */
const isPassing = (error: unknown): boolean =>
  error instanceof errors.ServerUnreachable ||
  (error instanceof errors.ApiError && REPEATED.has(error.status) && error.code !== 'quota_exceeded');

const retryAfter = (error: unknown): number => (error instanceof errors.ApiError ? error.retryAfter : 0);
const deadlineOf = (timeout?: number): number => (timeout === undefined ? Infinity : Date.now() + timeout);

const wasNotSent = (failure: unknown): boolean =>
  failure instanceof Error && NOT_SENT.has((failure.cause as { code?: string } | undefined)?.code ?? '');

function unreachable(url: string, failure: unknown): errors.ServerUnreachable {
  return new errors.ServerUnreachable(`${url}: ${reason(failure)}${hint(url)}`, { cause: failure });
}

/** A browser tells a page nothing about a response that it withholds: it may be no failure of the network. */
function hint(url: string): string {
  const own = (globalThis as { location?: { origin?: string } }).location?.origin;
  if (!own || own === new URL(url).origin) return '';
  return ` (or its HONE_CORS_ORIGINS lacks the origin of this page, ${own})`;
}

function reason(failure: unknown): string {
  if (!(failure instanceof Error)) return String(failure);
  return failure.cause instanceof Error ? `${failure.message}: ${failure.cause.message}` : failure.message;
}

const path = (it: Named): string => `/v1/refinements/${encodeURIComponent(typeof it === 'string' ? it : it.id)}`;
const batchPath = (it: Named): string => `/v1/batches/${encodeURIComponent(typeof it === 'string' ? it : it.id)}`;

// crypto.randomUUID exists in secure contexts only
const newKey = (): string => [...crypto.getRandomValues(new Uint8Array(16))].map((it) => it.toString(16)).join('-');

const matching = (lastEvent?: number): Record<string, string | undefined> => ({
  'If-Match': lastEvent === undefined ? undefined : `"${lastEvent}"`,
});

/** Milliseconds before the next attempt: exponential, with jitter. */
const pause = (failures: number): number =>
  Math.min(8000, 250 * 2 ** Math.max(0, failures - 1)) * (0.5 + Math.random() / 2);

function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(done, milliseconds);
    function done(): void {
      signal?.removeEventListener('abort', stop);
      resolve();
    }
    function stop(): void {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    signal?.addEventListener('abort', stop, { once: true });
  });
}
