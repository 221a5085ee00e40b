// What the test of the TypeScript client runs: `node typescript_client.mjs CLIENT URL SCENE`.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const [, , client, url, scene] = process.argv;
const { ApiError, Hone, InvalidRequest, NotFound, NotHone, NotPassed, PreconditionFailed, QuotaExceeded, ...rest } = await import(client);
const { ServerUnreachable, TimedOut, WebhookRejected, verifyWebhook } = rest;
const hone = new Hone({ url, maxRetries: 99 });
const say = (what) => console.log(JSON.stringify(what));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function survives() {
  const submitted = await hone.submit(null, { task: 'Explain refunds.', max_iterations: 9 });
  const seen = [];
  const watched = (async () => {
    for await (const event of hone.events(submitted)) {
      seen.push(event);
      if (seen.length === 4) say('watching');
    }
  })();
  const waited = hone.wait(submitted);
  assert.equal((await lines.next()).value, 'down');
  const refined = hone.refine(null, { task: 'Explain fees.', max_iterations: 1 }, { mustPass: false });
  const ended = await waited;
  await watched;
  assert.deepEqual(seen.map((it) => it.event), seen.map((_, at) => at + 1));
  assert.equal(seen.at(-1).data.result.draft, ended.result.draft);
  const { id, passed, outcome, reason, usage } = await refined;
  assert.deepEqual([passed, outcome, usage.calls > 0], [false, 'best_effort', true]);
  assert.equal(reason, (await hone.get(id)).reason);
  const must = hone.refine(null, { task: 'Explain fees.', max_iterations: 1 }, { mustPass: true });
  await assert.rejects(must, (error) => error instanceof NotPassed && error.result.reason === reason);
  const listed = [];
  for await (const it of hone.list({ status: 'succeeded' })) listed.push(it.id);
  assert.ok(listed.includes(submitted.id));
  say(ended.result.draft);
}

async function steers() {
  const running = await hone.submit(null, { task: 'Explain refunds.', max_iterations: 9 });
  for await (const event of hone.events(running, { deltas: true })) if (event.type === 'iteration.completed') break;
  await assert.rejects(hone.wait(running, { timeout: 1000 }), TimedOut);
  assert.equal((await hone.change(running, { threshold: 0.99 })).threshold, 0.99);
  await assert.rejects(hone.change(running, { threshold: 0.5 }, 1), PreconditionFailed);
  await assert.rejects(hone.submit('Text', { threshold: 7 }), (error) => {
    assert.ok(error instanceof InvalidRequest && error.requestId);
    return error.errors[0].pointer === '/threshold';
  });
  await hone.finish(running);
  assert.equal((await hone.wait(running)).stop_reason, 'finished_early');
  assert.equal((await hone.iterations(running)).data.length, 1);
  await hone.rate(running, { path: 'iterations/1', score: 0.4 });
  const again = await hone.continueFrom(running, { max_iterations: 1 });
  assert.equal(again.parent, running.id);
  await hone.cancel(again);
  await hone.erase(running);
  await assert.rejects(hone.get(running), NotFound);
  const batch = await hone.batch({ one: { task: 'Explain.' }, two: { threshold: 7 } }, { defaults: { max_iterations: 1 } });
  assert.equal((await hone.waitForBatch(batch)).counts.best_effort, 1);
  const results = [];
  for await (const it of hone.batchResults(batch)) results.push(it.outcome);
  assert.deepEqual(results, ['best_effort', 'invalid']);
  assert.match(await hone.request('/v1/statistics', { query: { of: 'usage', format: 'csv' } }), /^day,/);
  say('steered');
}

/** Every second answer breaks off after its first bytes, as one of a server that is killed. */
async function outlasts() {
  let answers = 0;
  const breakingOff = async (...call) => {
    const answer = await fetch(...call);
    if (answer.status === 304 || (answers += 1) % 2 === 0) return answer;
    await answer.body?.cancel();
    const pieces = ['{"id'].values();
    const pull = (it) => {
      const { value, done } = pieces.next();
      return done ? it.error(new TypeError('terminated')) : it.enqueue(new TextEncoder().encode(value));
    };
    return new Response(new ReadableStream({ pull }), answer);
  };
  const cut = new Hone({ url, fetch: breakingOff, maxRetries: 1 });
  const metadata = { scene: 'outlasts' };
  const submitted = await cut.submit(null, { task: 'Explain refunds.', max_iterations: 1, metadata });
  assert.equal((await cut.wait(submitted)).status, 'succeeded');
  assert.match(await cut.report(submitted), /^# /);
  const listed = [];
  for await (const it of cut.list({ metadata })) listed.push(it.id);
  assert.deepEqual(listed, [submitted.id]);
  await assert.rejects(new Hone({ url, fetch: breakingOff, maxRetries: 0 }).get(submitted), ServerUnreachable);
  say('outlasted');
}

const LOST = new TypeError('terminated');
const REFUSED = new TypeError('fetch failed', { cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) });
const SNAPSHOT = { id: 'ref_1', status: 'running', last_event: 3 };
const json = (status, body, headers = {}) => Response.json(body, { status, headers });
const problem = (status, code) => json(status, { code, title: 'T', detail: 'D' });

/** Return a client whose server gives these answers, the last one for ever, and the requests that it gets. */
function scripted(...answers) {
  const requests = [];
  const answer = async (url, init) => {
    requests.push({ url: String(url), ...init });
    const next = answers.length > 1 ? answers.shift() : answers[0];
    if (next instanceof Error) throw next;
    return next.clone();
  };
  return [new Hone({ url: 'http://hone.test', fetch: answer, patience: 0 }), requests];
}

async function all(generator) {
  const found = [];
  for await (const each of generator) found.push(each);
  return found;
}

async function repeats() {
  for (const call of [
    (it) => it.finish('ref_1'),
    (it) => it.change('ref_1', { threshold: 0.5 }, 3),
    (it) => it.review('ref_1', { action: 'approve' }),
    (it) => it.request('/v1/endpoints/ep_1/rotate', { method: 'POST' }),
  ]) {
    const [client, requests] = scripted(LOST, json(200, { ...SNAPSHOT, threshold: 0.5 }));
    await call(client);
    const [first, second] = requests.map((it) => it.headers.get('Idempotency-Key'));
    assert.ok(first && first === second);
  }
  const [erasing] = scripted(LOST, problem(404, 'not_found'));
  await erasing.erase('ref_1');
  await assert.rejects(erasing.erase('ref_1'), NotFound);
  for (const path of ['/v1/keys', '/v1/keys/key_1/rotate', '/v1/endpoints', '/v1/presets/p/proposals']) {
    const [client, requests] = scripted(REFUSED, problem(429, 'rate_limited'), LOST);
    await assert.rejects(client.request(path, { method: 'POST', json: {} }), ServerUnreachable);
    assert.equal(requests.length, 3);
  }
  say('repeats');
}

const html = () => new Response('<html>', { headers: { 'Content-Type': 'text/html' } });

async function distrusts() {
  const server = createServer((request, response) => {
    if (request.url.startsWith('/elsewhere')) return response.setHeader('Content-Type', 'application/json').end('{"id":"ref_1"}');
    response.writeHead(301, { Location: `/elsewhere${request.url}` }).end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const redirected = new Hone({ url: `http://127.0.0.1:${server.address().port}` });
  const calls = [
    (it) => it.submit('Text'),
    (it) => it.refine('Text'),
    (it) => it.wait('ref_1'),
    (it) => all(it.events('ref_1')),
    (it) => all(it.list()),
    (it) => it.report('ref_1'),
    (it) => it.iterations('ref_1'),
    (it) => it.change('ref_1', { threshold: 0.5 }),
    (it) => all(it.batchResults('batch_1')),
  ];
  for (const call of calls) {
    await assert.rejects(call(redirected), (error) => error instanceof NotHone && /redirects to \/elsewhere/.test(error.message));
    for (const answer of [html(), json(200, { status: 'ok' }), json(200, { id: 101 }), json(200, [])]) {
      await assert.rejects(call(scripted(answer)[0]), NotHone);
    }
  }
  for (const errors of [{ upstream: 1 }, ['upstream'], [{ detail: 'x' }, null]]) {
    const [client, requests] = scripted(json(400, { code: 'x', errors }));
    await assert.rejects(client.get('ref_1'), (error) => error instanceof ApiError && error.code === 'x');
    assert.equal(requests.length, 1);
  }
  await assert.rejects(scripted(json(400, { code: 7 }))[0].get('ref_1'), (error) => error instanceof ApiError && error.code === '');
  say('distrusts');
}

/** A server that accepts and never answers, and one that asks to come again late. */
async function ends() {
  setInterval(() => {}, 1000); // the timers of signals keep no process running
  const silent = (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const late = async () => json(503, { code: 'unavailable' }, { 'Retry-After': '60' });
  for (const fetch of [silent, late]) {
    const client = new Hone({ url: 'http://hone.test', fetch });
    await assert.rejects(client.refine('Text', {}, { timeout: 50 }), TimedOut);
    await assert.rejects(client.wait('ref_1', { timeout: 50 }), TimedOut);
    await assert.rejects(client.waitForBatch('batch_1', { timeout: 50 }), TimedOut);
  }
  await assert.rejects(scripted(json(200, SNAPSHOT))[0].wait('ref_1', { timeout: 0 }), /ref_1 is running/);
  const answers = [REFUSED, problem(503, 'unavailable'), json(200, { ...SNAPSHOT, status: 'succeeded' })].values();
  const restarting = async () => {
    const next = answers.next().value;
    if (next instanceof Error) throw next;
    return next;
  };
  assert.equal((await new Hone({ url: 'http://hone.test', fetch: restarting, maxRetries: 0 }).wait('ref_1')).status, 'succeeded');
  say('ends');
}

const stream = (...pieces) =>
  new Response(
    new ReadableStream({
      pull(controller) {
        const piece = pieces.shift();
        if (piece instanceof Error) controller.error(piece);
        else if (piece) controller.enqueue(new TextEncoder().encode(piece));
        else controller.close();
      },
    }),
    { headers: { 'Content-Type': 'text/event-stream' } },
  );

async function watches() {
  const [refused, requests] = scripted(problem(429, 'quota_exceeded'));
  await assert.rejects(all(refused.events('ref_1')), QuotaExceeded);
  assert.equal(requests.length, 1);
  for (const call of [(it, signal) => it.get('ref_1', { signal }), (it, signal) => all(it.events('ref_1', { signal }))]) {
    const [busy, asked] = scripted(json(429, { code: 'rate_limited' }, { 'Retry-After': '7' }));
    await assert.rejects(call(busy, AbortSignal.timeout(1000)), DOMException);
    assert.equal(asked.length, 1); // the pauses of the client's own are shorter than a second
  }
  // However late a stream breaks, the server had answered: only the time since then counts against the patience.
  const ended = stream('data: {"event": 1, "type": "refinement.canceled", "data": {}}\n\n');
  const quiet = () => stream(': still here\n\n', LOST);
  const [client] = scripted(quiet(), quiet(), quiet(), ended);
  assert.deepEqual((await all(client.events('ref_1'))).map((it) => it.event), [1]);
  await assert.rejects(all(scripted(stream('data: <html>\n\n'))[0].events('ref_1')), NotHone);
  say('watches');
}

async function verifies() {
  const secret = `whsec_${Buffer.from('a secret of 24 characters').toString('base64')}`;
  const body = JSON.stringify({ type: 'refinement.completed', timestamp: 't', data: { id: 'ref_1', name: 'Grüße' } });
  const sent = `${Math.floor(Date.now() / 1000)}`;
  const key = Buffer.from(secret.slice(6), 'base64');
  const signature = createHmac('sha256', key).update(`msg_1.${sent}.${body}`).digest('base64');
  const headers = { 'Webhook-Id': 'msg_1', 'webhook-timestamp': sent, 'webhook-signature': `v1,AAAA v1,${signature}` };
  assert.equal((await verifyWebhook(body, headers, secret)).data.id, 'ref_1');
  assert.equal((await verifyWebhook(body, new Headers(headers), secret)).id, 'msg_1');
  for (const [wrong, why, key] of [
    [{ 'webhook-id': 'msg_2' }, /not that of this body/],
    [{ 'webhook-id': '' }, /header webhook-id is missing/],
    [{ 'webhook-timestamp': '1' }, /s ago/],
    [{ 'webhook-timestamp': 'now' }, /no number: 'now'/],
    [{ 'webhook-signature': 'v1,!' }, /the signature is missing, or not base64/],
    [{}, /the secret is missing, or not base64/, ''],
    [{}, /the secret is missing, or not base64/, 'whsec_x'],
  ]) {
    await assert.rejects(
      verifyWebhook(body, { ...headers, ...wrong }, key ?? secret),
      (error) => error instanceof WebhookRejected && why.test(error.message),
    );
  }
  const errors = [{ pointer: '/request/draft', detail: 'must not be empty' }, { pointer: '', detail: 'must have a draft' }];
  const refused = new InvalidRequest(422, { title: 'Invalid', detail: 'no line has a valid request; line 2', errors });
  const lines = ['Invalid: no line has a valid request; line 2', '  /request/draft: must not be empty', '  must have a draft'];
  assert.deepEqual(refused.message.split('\n'), lines);
  say('verifies');
}

await { survives, steers, outlasts, repeats, distrusts, ends, watches, verifies }[scene]();
process.exit(0);
