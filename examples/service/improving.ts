// A service that has Hone improve texts: docs/clients.md, "Inside your service". It needs
// `npm install ./clients/typescript` and `npm install --save-dev typescript @types/node`.
import { createServer, type IncomingMessage } from 'node:http';
import { ApiError, Hone, HoneError, InvalidRequest, verifyWebhook, WebhookRejected } from 'hone-client';

const editor = new Hone({ maxRetries: 0 }); // a caller waits: fail at once, and let them come again
const secret = process.env['WEBHOOK_SECRET'] ?? '';
const hook = 'http://127.0.0.1:8700/hone';
const ours: Record<string, string> = { '/draft': 'text', '/criteria/1/description': 'audience' }; // names of Hone, and ours
const answers: Record<string, [number, unknown]> = {
  // what a caller can mend
  not_found: [404, { error: 'there is none' }],
  conflict: [409, { error: 'it has ended' }],
  precondition_failed: [409, { error: 'it has changed: look again' }],
  idempotency_mismatch: [422, { error: 'the key was used with another text' }],
  too_large: [413, { error: 'the text is too long' }],
};
const heard = new Set<string>(); // a database, where several processes run

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

async function answer(request: IncomingMessage): Promise<[number, unknown]> {
  const [, place, id = ''] = (request.url ?? '').split('/');
  if (request.method === 'POST' && place === 'improvements') {
    const { text, audience } = JSON.parse(await bodyOf(request)) as { text: string; audience: string };
    const key = request.headers['idempotency-key'] as string | undefined; // who comes again gets the same one
    const submitted = await editor.submit(
      text,
      {
        criteria: [{ name: 'conciseness' }, { name: 'readability', description: `Easy to read for ${audience}.` }],
        threshold: 0.9,
        max_iterations: 4,
        stop: { max_cost_usd: 0.05 },
        webhook: { url: hook, secret },
      },
      { idempotencyKey: key },
    );
    return [202, { id: submitted.id }];
  }
  if (request.method === 'GET' && place === 'improvements') {
    const { status, iteration, best, outcome, result } = await editor.get(id);
    const found = result ? { text: result.draft, score: result.score } : null;
    return [200, { status, iteration, best: best?.score ?? null, outcome, result: found }];
  }
  if (request.method === 'DELETE' && place === 'improvements') return [202, { status: (await editor.cancel(id)).status }];
  if (request.method === 'POST' && place === 'hone') {
    const message = await verifyWebhook(await bodyOf(request), request.headers, secret);
    if (!heard.has(message.id)) console.log(message.type, message.data.id, message.data.status); // it may come twice
    heard.add(message.id);
    return [204, ''];
  }
  return [404, { error: 'there is none' }];
}

function explain(error: unknown): [number, unknown] {
  if (error instanceof SyntaxError) return [400, { error: 'send JSON' }];
  if (error instanceof WebhookRejected) return [400, ''];
  if (error instanceof InvalidRequest) {
    return [422, { errors: error.errors.map((it) => ({ field: ours[it.pointer] ?? 'ours', detail: it.detail })) }];
  }
  const known = error instanceof ApiError ? answers[error.code] : undefined;
  if (known) return known;
  const isAway = error instanceof ApiError ? [429, 503].includes(error.status) : error instanceof HoneError;
  if (isAway) return [503, { error: 'busy, try again' }];
  console.log('Hone refused:', error); // a key, a setting: yours to mend
  return [502, { error: 'the editor failed' }];
}

createServer(async (request, response) => {
  const [status, json] = await answer(request).catch(explain);
  response.writeHead(status, { 'Content-Type': 'application/json', ...(status === 503 ? { 'Retry-After': '10' } : {}) });
  response.end(json === '' ? '' : JSON.stringify(json));
}).listen(8700, '127.0.0.1');
