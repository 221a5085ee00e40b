/** Home: a text is pasted, and one key makes it better. Everything else that a request can have folds away. */
import { ApiError, type schema as types } from 'hone';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { hone, type Session } from './api.js';
import { jsonOf } from './code.js';
import { Recent, WaitingForMe } from './list.js';
import { costText, Failure, Loading, Name, useLoaded, withLineEndsOf } from './parts.js';
import { isLasting, reading } from './reading.js';
import { hrefOf, Link, navigate } from './router.js';
import { withoutSecrets } from './secrets.js';
import { isolated, useTitle } from './title.js';

type Request = Record<string, unknown>;

const KEPT = 'hone.request';
const SETTLED_MS = 600;
/** What stands beside the form; an error at another field unfolds the rest. */
const TEXTS = ['/draft', '/task'];
const EXAMPLE =
  'Dear customer, in order to begin the refund procedure, it is necessary that the form is completed. Due to the fact that' +
  ' there are a large number of cases, the processing may take some time. In the event that you have payed by card, we' +
  ' will definately return the money to the card.';

interface Shown {
  from: string | null;
  preset: string | null;
  /** The preset whose settings are to be changed. */
  edit: string | null;
  session: Session;
  /** Whether what was done last stands below, and the rest is folded. */
  isHome: boolean;
}

export function SubmitPage({ from, preset, edit, session, isHome }: Shown) {
  const copied = useLoaded(
    () => {
      if (from) return hone.request<Request>(`/v1/refinements/${encodeURIComponent(from)}/request`);
      if (edit) return hone.request<types.Preset>(`/v1/presets/${encodeURIComponent(edit)}`).then((it) => it.request as Request);
      return Promise.resolve(preset ? { preset } : null);
    },
    [from, preset, edit],
  );
  useTitle('New refinement', from && `from ${isolated(from)}`);
  const maySubmit = session.scopes.includes('submit');
  return (
    <>
      <h1>{edit ? <>Settings of <Name of={edit} /></> : 'Make a text better'}</h1>
      {edit && <p class="quiet">Change them below, and save them under the same name.</p>}
      {!maySubmit && <p role="alert">This key may not submit: it lacks the scope “submit”. An administrator makes <Link href={hrefOf('keys')}>another one</Link>.</p>}
      {copied.failure !== undefined && <Failure of={copied.failure} />}
      {maySubmit && copied.value === undefined && copied.failure === undefined && <Loading />}
      {maySubmit && copied.value !== undefined && (
        <RequestForm
          key={`${from ?? ''} ${preset ?? ''} ${edit ?? ''}`}
          from={copied.value}
          keptAs={`${KEPT} ${session.tenant} ${session.key_id ?? ''}`}
          isHome={isHome}
        />
      )}
      {isHome && <WaitingForMe session={session} isShort />}
      {isHome && <Recent />}
    </>
  );
}

function RequestForm({ from, keptAs, isHome }: { from: Request | null; keptAs: string; isHome: boolean }) {
  const sentAs = `${keptAs} sent`;
  const [request, setRequest] = useState<Request>(() => (isOfSent() ? kept(sentAs) : from ? withoutSecrets(from)[0] : kept(keptAs)));
  const first = useRef(request); // what is not changed need not be kept, such as what was sent
  const [failure, setFailure] = useState<unknown>();
  const [typed, setTyped] = useState<string>(); // how a draft that is an object is written while it is edited
  const [isSending, setSending] = useState(false);
  const [isMore, setMore] = useState(() => !isHome || Object.keys(request).some((it) => !TEXTS.includes(`/${it}`)));
  const [isReady, setReady] = useState(false); // whether the fields of the rest are there
  const form = useRef<HTMLFormElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  // The same request is submitted once, however often the button is pressed.
  const key = useMemo(() => [...crypto.getRandomValues(new Uint8Array(16))].join('-'), [request]);
  const errors = useMemo(() => errorsOf(failure), [failure]);
  const unkept = useRef<() => void>(undefined);
  unkept.current = request === first.current ? undefined : () => keep(keptAs, request);
  useLayoutEffect(() => {
    if (isHome && matchMedia('(pointer: fine)').matches) field.current?.focus({ preventScroll: true }); // a keyboard on glass would hide the page
  }, []);
  useEffect(() => {
    if (request !== first.current && isOfSent()) history.replaceState(null, '');
    const timer = setTimeout(() => unkept.current?.(), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [request]);
  useEffect(() => () => unkept.current?.(), []);
  useEffect(() => {
    if ([...errors.keys()].some((it) => !TEXTS.includes(it))) setMore(true);
    const wrong = form.current?.querySelector<HTMLElement>('[aria-invalid="true"]');
    wrong?.closest('details')?.setAttribute('open', '');
    wrong?.focus();
  }, [errors, isReady]);
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
  const type = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event);
  };
  const change = (name: string, text: string) => {
    const { [name]: _, ...others } = request;
    setRequest(text ? { ...others, [name]: text } : others);
  };
  const draft = request['draft'];
  const isObject = useRef(false); // whether the text is JSON for an object, also while it is edited
  isObject.current = draft !== undefined && (isObject.current || typeof draft === 'object');
  const changeDraft = (text: string) => {
    setTyped(text);
    const object = isObject.current ? objectOf(text) : undefined;
    if (object) setRequest({ ...request, draft: object });
    else change('draft', typeof draft === 'string' ? withLineEndsOf(draft, text) : text);
  };
  const isTaskAlone = !request['draft'] && Boolean(request['task']);
  return (
    <form ref={form} class="request" onSubmit={submit} onKeyDown={type} noValidate>
      {from && withoutSecrets(from)[1] && <p class="notice">Secrets of the other request are not shown to anybody: fill them in again.</p>}
      <div class="box">
        <label class="line paper">
          Your text
          <textarea
            ref={field}
            rows={11}
            placeholder="Paste a text here."
            aria-invalid={errors.has('/draft')}
            value={typeof draft === 'object' ? (typed ?? jsonOf(draft, 2)) : String(draft ?? '')}
            onInput={(event) => changeDraft(event.currentTarget.value)}
            onBlur={() => setTyped(undefined)}
          />
          {isObject.current && typeof draft !== 'object' && <span class="error">This is no JSON object: as it stands, it is a text.</span>}
          {errors.has('/draft') && <span class="error">{errors.get('/draft')}</span>}
        </label>
        <div class="wish">
          <label class="line">
            What should be better?
            <textarea
              rows={4}
              placeholder="Shorter and friendlier, say. Or nothing: then it becomes clear and correct."
              aria-invalid={errors.has('/task')}
              value={String(request['task'] ?? '')}
              onInput={(event) => change('task', event.currentTarget.value)}
            />
            {errors.has('/task') && <span class="error">{errors.get('/task')}</span>}
          </label>
          <button class="main large" disabled={isSending} aria-keyshortcuts="Control+Enter Meta+Enter">
            {isSending ? 'Sending…' : isTaskAlone ? 'Write' : 'Improve'} <kbd aria-hidden="true">{ENTER}</kbd>
          </button>
          {Object.keys(request).length ? (
            <Estimate of={request} />
          ) : (
            <p class="quiet">
              It is improved and judged, step by step, until it is good enough. You see every change, and keep those you like.{' '}
              <button type="button" class="link" onClick={() => change('draft', EXAMPLE)}>
                Try an example
              </button>
            </p>
          )}
        </div>
      </div>
      {failure !== undefined && <Failure of={failure} />}
      <details class="more" open={isMore} onToggle={(event) => setMore(event.currentTarget.open)}>
        <summary>More: preset, criteria, strategy, limits, review, the same as code</summary>
        {isMore && (
          <div class="rest">
            <Rest {...{ request, setRequest, errors }} ready={() => setReady(true)} />
            <p hidden={!isReady}>
              <button type="button" onClick={() => setRequest({})}>
                Empty the form
              </button>
            </p>
          </div>
        )}
      </details>
    </form>
  );
}

const ENTER = /Mac|iP(hone|ad)/.test(navigator.userAgent) ? '⌘ ↵' : 'Ctrl ↵';

interface Folded {
  request: Request;
  setRequest: (next: Request) => void;
  errors: Map<string, string>;
  ready: () => void;
}

function Rest(of: Folded) {
  const { value, failure } = useLoaded(() => import('./form.js'), []);
  if (!value) return failure === undefined ? <Loading /> : <Failure of={failure} />;
  return <value.More {...of} />;
}

/** Whether this entry of the browser's history is of a form that was sent. */
const isOfSent = (): boolean => Boolean((history.state as { isSent?: boolean } | null)?.isSent);

function objectOf(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

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

