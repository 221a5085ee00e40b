/** The frame of every page: who is signed in, where one can go, and what the address names. */
import type { ComponentChildren, ComponentType } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { actAs, type Connection, hone, readToken, root, type Session, session, signOut, watchConnection, watchTabs } from './api.js';
import { useKeptFocus } from './focus.js';
import { SubmitPage } from './home.js';
import { RefinementList } from './list.js';
import { Failure, Loading, Name, useLoaded } from './parts.js';
import { reading, watchReturns } from './reading.js';
import { hrefOf, Link, type Route, useRoute } from './router.js';
import { SignIn } from './sign_in.js';
import { useTitle } from './title.js';

/** The scripts of pages that are loaded when they are shown, or once nothing else is to be done. */
const SCRIPTS = {
  batches: () => import('./batches.js'),
  form: () => import('./form.js'),
  inbox: () => import('./inbox.js'),
  refinement: () => import('./refinement.js'),
  settings: () => import('./settings.js'),
};
const BatchList = lazily(SCRIPTS.batches, (it) => it.BatchList);
const BatchPage = lazily(SCRIPTS.batches, (it) => it.BatchPage);
const Inbox = lazily(SCRIPTS.inbox, (it) => it.Inbox);
const RefinementPage = lazily(SCRIPTS.refinement, (it) => it.RefinementPage);
const Settings = lazily(SCRIPTS.settings, (it) => it.Settings);
const IDLE_MS = 5_000;

/** Return a component that loads its script first; a failure is told, and the script asked for again. */
function lazily<Script, Properties extends object>(load: () => Promise<Script>, pick: (from: Script) => ComponentType<Properties>) {
  let script: Script | undefined;
  return function Loaded(properties: Properties) {
    const { value = script, failure } = useLoaded(async () => (script ??= await load()), []);
    if (!value) return failure === undefined ? <Loading /> : <Failure of="This page could not be loaded yet. It is tried again." />;
    const Picked = pick(value);
    return <Picked {...properties} />;
  };
}

export function Console() {
  useKeptFocus();
  useEffect(() => {
    // A server that is away later has sent what the other pages need.
    const timer = setTimeout(() => Object.values(SCRIPTS).forEach((load) => void load().catch(() => undefined)), IDLE_MS);
    return () => clearTimeout(timer);
  }, []);
  const route = useRoute();
  const [signedIn, setSignedIn] = useState<Session | null>();
  const [failure, setFailure] = useState<unknown>();
  const connection = useConnection();
  const [other, setOther] = useState<Session>();
  const shown = useRef<Session>(undefined);
  const show = (it: Session | null) => {
    if (it) actAs(it);
    shown.current = it ?? undefined;
    setSignedIn(it);
    setOther(undefined);
  };
  const [looks] = useState(() =>
    reading(
      session,
      (it) => {
        setFailure(undefined);
        show(it);
      },
      setFailure,
    ),
  );
  /** See whose session it is now: what another tab did must not change whom this page acts as. */
  const check = (isSignedOut: boolean) =>
    session().then((it) => {
      if (!it && !isSignedOut) return; // the session has ended: one signs in again, and nothing is lost
      if (it && shown.current && it.key_id !== shown.current.key_id) setOther(it);
      else show(it);
    }, () => undefined);
  useEffect(() => looks.ask(), []);
  useEffect(() => (readToken ? undefined : watchTabs(() => void check(true))), []);
  useEffect(() => (readToken ? undefined : watchReturns(() => void check(true))), []);
  useEffect(() => {
    if (connection === 'signed out' && shown.current && !readToken) void check(false);
  }, [connection]);
  const leave = async () => {
    await signOut().then(() => show(null), setFailure);
  };
  // What was typed stays in the page, which is shown again after signing in.
  const isExpired = Boolean(signedIn) && !readToken && (connection === 'signed out' || other !== undefined);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <header>
        <Link class="brand" href={hrefOf()}>
          <Mark /> <span>Hone</span>
        </Link>
        {signedIn && !readToken && <Navigation at={route.path[0] ?? ''} />}
        {signedIn?.key_id && (
          <span class="who">
            <Name of={signedIn.tenant} /> <Link href={hrefOf('keys')} title={signedIn.key_id}>{signedIn.name ? <Name of={signedIn.name} /> : <code>{signedIn.key_id}</code>}</Link> <button onClick={leave}>Sign out</button>
          </span>
        )}
      </header>
      <main id="main" tabIndex={-1}>
        {failure !== undefined && <Failure of={failure} />}
        {signedIn === undefined && failure === undefined && <Loading />}
        {signedIn === null && <SignIn done={looks.ask} />}
        <p role="status" class={connection === 'away' ? 'notice' : 'unseen'}>
          {connection === 'away' && 'The server does not answer. What you see may be old; the page goes on by itself.'}
        </p>
        {signedIn?.is_open && isElsewhere && <NoKeys />}
        {isExpired && other && <Other of={other} former={signedIn?.key_id} />}
        {isExpired && <SignIn done={looks.ask} isAgain={other ? 'replaced' : 'ended'} />}
        {signedIn && (
          <div key={signedIn.tenant} hidden={isExpired}>
            <Page route={route} session={signedIn} />
          </div>
        )}
        {signedIn?.is_open && !isElsewhere && <NoKeys />}
      </main>
    </>
  );
}

/** The mark: a rough line that becomes smooth. */
function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M4 16l2.6-7 3.6 14 3.4-11 2.4 6.5 1.8-2.5H28" />
    </svg>
  );
}

/** Said in place of everything else: the page has neither a token that works nor a reason to ask for a key. */
export function BrokenLink() {
  useTitle('The link is not complete');
  return (
    <main id="main">
      <h1>The link is not complete</h1>
      <p role="alert">Copy the whole link, with all that follows the “#”, or ask who sent it for another one.</p>
    </main>
  );
}

const LOOPBACK = /^(localhost|.*\.localhost|127\..*|\[::1\])$/;

/** Whether the server has another name than that of this machine, which the browser alone knows. */
const isElsewhere = !LOOPBACK.test(location.hostname);

/** Tells that anybody can use the server. */
function NoKeys() {
  return (
    <p class={isElsewhere ? 'notice' : 'quiet keyless'} role={isElsewhere ? 'alert' : undefined}>
      This server has no API keys
      {isElsewhere ? `, and is reached as ${location.hostname}: everybody on that network can use it.` : ': nothing may stand before it, no proxy and no tunnel.'} Make
      one on its machine: <code>hone keys create --admin</code> (<Link href={hrefOf('keys')}>what for</Link>)
    </p>
  );
}

/** Tells that another tab has signed in as somebody else. */
function Other({ of, former }: { of: Session; former: string | null | undefined }) {
  return (
    <div class="notice" role="alert">
      <p>
        You are signed in as <code>{of.key_id ?? 'nobody'}</code> (<Name of={of.tenant} />) in another tab. This page was of{' '}
        <code>{former ?? 'nobody'}</code>: nothing is done with it, and nothing that you typed is lost.
      </p>
      <button onClick={() => location.reload()}>Reload the page as {of.key_id ?? 'nobody'}</button>
    </div>
  );
}

/** The fragment stays as it is: it may be the token of a read link. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

const ASKED_AGAIN_MS = 3_000;

/** How the server answers; one that is away is asked until it is back. */
function useConnection(): Connection {
  const [connection, setConnection] = useState<Connection>('there');
  useEffect(() => watchConnection(setConnection), []);
  useEffect(() => {
    if (connection !== 'away') return;
    const timer = setInterval(() => void hone.request('/console/session').catch(() => undefined), ASKED_AGAIN_MS);
    return () => clearInterval(timer);
  }, [connection]);
  return connection;
}

const PLACES: [string, string][] = [
  ['', 'New'],
  ['refinements', 'Refinements'],
  ['reviews', 'Reviews'],
  ['batches', 'Batches'],
  ['cost', 'Cost'],
  ['presets', 'Settings'],
];

/** The pages of figures and settings, by the place that leads to them. */
const BELOW: Record<string, string> = {
  cost: 'cost',
  insights: 'cost',
  presets: 'presets',
  webhooks: 'presets',
  keys: 'presets',
  tenants: 'presets',
  audit: 'presets',
};

function Navigation({ at }: { at: string }) {
  return (
    <nav aria-label="Console">
      {PLACES.map(([path, title]) => (
        <Link
          href={path ? hrefOf(path) : hrefOf()}
          aria-current={path === (at === 'new' ? '' : (BELOW[at] ?? at)) ? 'page' : undefined}
        >
          {title}
        </Link>
      ))}
      <a class="api" href={`${root}/docs`}>
        API
      </a>
    </nav>
  );
}

interface Kind {
  place: string;
  name: string;
  prefix: string;
  id: RegExp;
}

/** What has a page by its id. */
const KINDS: Kind[] = [
  { place: 'refinements', name: 'refinement', prefix: 'ref_', id: /^ref_[0-9A-HJKMNP-TV-Z]{26}$/ },
  { place: 'reviews', name: 'refinement', prefix: 'ref_', id: /^ref_[0-9A-HJKMNP-TV-Z]{26}$/ },
  { place: 'batches', name: 'batch', prefix: 'batch_', id: /^batch_[0-9A-HJKMNP-TV-Z]{26}$/ },
];

/** What the address names. */
function Page({ route, session }: { route: Route; session: Session }) {
  const [place = '', id, part] = route.path;
  const kind = KINDS.find((it) => it.place === place);
  // Other characters than those of an id would change the address that is asked.
  if (kind && id && !kind.id.test(id)) return <Misnamed kind={kind} id={id} />;
  if (place === 'refinements' && id) return <RefinementPage key={id} id={id} part={part ?? ''} session={session} />;
  if (place === 'refinements') return <RefinementList query={route.query} session={session} />;
  if (place === 'reviews') return <Inbox id={id} session={session} />;
  if (place === 'batches' && id) return <BatchPage key={id} id={id} session={session} />;
  if (place === 'batches') return <BatchList query={route.query} />;
  if (!id && place in BELOW) return <Settings place={place} query={route.query} session={session} />;
  if (place === '' || place === 'new')
    return <SubmitPage key={place} from={route.query.get('from')} preset={route.query.get('preset')} edit={route.query.get('edit')} session={session} isHome={place === ''} />;
  return <Nothing />;
}

/** Says that the address has no id where it needs one, or that of something else. */
function Misnamed({ kind, id }: { kind: Kind; id: string }) {
  const other = KINDS.find((it) => it.id.test(id));
  return (
    <Nothing>
      <p role="alert">
        “<Name of={id} />” is no id of a {kind.name}: one is <code>{kind.prefix}</code> and 26 digits or letters.
        {other && (
          <>
            {' '}
            It is the id of a {other.name}: <Link href={hrefOf(other.place, id)}>{id}</Link>
          </>
        )}
      </p>
    </Nothing>
  );
}

function Nothing({ children }: { children?: ComponentChildren }) {
  useTitle('Nothing here');
  return (
    <>
      <h1>Nothing here</h1>
      {children}
      <p>
        The console has no page at this address. <Link href={hrefOf('refinements')}>All refinements</Link>
      </p>
    </>
  );
}
