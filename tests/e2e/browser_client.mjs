// What the page of the test of the TypeScript client in a browser runs.
import * as client from 'hone-client';

const { Hone } = client;

function require(fact, what) {
  if (!fact) throw new Error(`not so: ${what}`);
}

async function refused(call, kind) {
  const error = await call.then(() => undefined, (it) => it);
  require(error instanceof kind, `${error} is a ${kind.name}`);
  return error;
}

export async function refines(options) {
  const hone = new Hone(options);
  const result = await hone.refine(null, { task: 'Explain refunds.', max_iterations: 1 });
  require(result.draft.length > 0, 'there is a draft');
  const wrong = await refused(hone.submit('Text', { threshold: 7 }), client.InvalidRequest);
  require(wrong.errors[0].pointer === '/threshold' && wrong.requestId, 'it says where, and its request');
  await refused(hone.get('ref_unknown'), client.NotFound);
  await refused(new Hone({ ...options, apiKey: 'hone_wrong' }).get('ref_unknown'), client.Unauthenticated);
  for await (const it of hone.list()) {
    await refused(hone.change(it, { threshold: 0.5 }, 1), client.ApiError);
    await hone.erase(it);
  }
}

/** Watch from the first event to the last, and leave what was seen where the test finds it. */
export async function watches(options) {
  const hone = new Hone({ ...options, maxRetries: 99 });
  const watching = { events: [], deltas: 0 };
  globalThis.watching = watching;
  const refinement = await hone.submit(null, { task: 'Explain refunds.', max_iterations: 9 });
  const waited = hone.wait(refinement);
  for await (const event of hone.events(refinement, { deltas: true })) {
    if (event.type === 'step.delta') watching.deltas += 1;
    else watching.events.push(event.event);
  }
  return (await waited).result.draft;
}

/** Return how the client refuses a server that does not know the page. */
export async function isForeign(options) {
  return (await refused(new Hone({ ...options, maxRetries: 0 }).list().next(), client.ServerUnreachable)).message;
}

export async function verifies(body, headers, secret) {
  await refused(client.verifyWebhook(`${body} `, headers, secret), client.WebhookRejected);
  return (await client.verifyWebhook(body, headers, secret)).id;
}

/** Return how a signature is refused where the page has no WebCrypto. */
export async function cannotVerify() {
  const error = await refused(client.verifyWebhook('{}', {}, 'whsec_'), client.HoneError);
  require(!(error instanceof client.WebhookRejected), 'the webhook is not to blame');
  return error.message;
}
