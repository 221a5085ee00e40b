import { HoneError, WebhookRejected } from './errors.js';
import type { Batch, Snapshot } from './schema.js';

const TOLERANCE_S = 300;

/** What a webhook says of a refinement, as it was then. */
export interface RefinementMessage {
  id: string;
  type: 'refinement.completed' | 'refinement.failed' | 'refinement.canceled' | 'refinement.paused';
  timestamp: string;
  data: Snapshot;
}

/** What a webhook says of a batch. */
export interface BatchMessage {
  id: string;
  type: 'batch.completed';
  timestamp: string;
  data: Batch;
}

/** What a webhook says; `type` tells what `data` is. One that comes again has the same `id`. */
export type WebhookMessage = RefinementMessage | BatchMessage;

/**
 * Return the message of a webhook that Hone has signed within five minutes (Standard Webhooks 1.0).
 *
 * `body` is what was received, byte for byte; `secret` begins with `whsec_`. Throws WebhookRejected,
 * and HoneError in a page without WebCrypto: one that came neither by HTTPS nor from this machine.
 */
export async function verifyWebhook(
  body: string,
  headers: Headers | Record<string, string | string[] | undefined>,
  secret: string,
  now: number = Date.now() / 1000,
): Promise<WebhookMessage> {
  if (!globalThis.crypto?.subtle) {
    throw new HoneError('signatures can be verified in secure contexts only: HTTPS, localhost, or Node');
  }
  const lower = new Map<string, string>();
  for (const [name, value] of headers instanceof Headers ? headers : Object.entries(headers)) {
    if (value !== undefined) lower.set(name.toLowerCase(), String(value));
  }
  const [id, sent, given] = ['id', 'timestamp', 'signature'].map((it) => {
    const header = lower.get(`webhook-${it}`);
    if (!header) throw new WebhookRejected(`the header webhook-${it} is missing: this is no webhook of Hone`);
    return header;
  }) as [string, string, string];
  const age = now - Number(sent);
  if (Number.isNaN(age)) throw new WebhookRejected(`the header webhook-timestamp is no number: '${sent}'`);
  if (!(Math.abs(age) <= TOLERANCE_S)) {
    throw new WebhookRejected(`signed ${Math.round(age)} s ago: old, or a clock is wrong`);
  }
  const key = await crypto.subtle.importKey(
    'raw',
    bytes(secret.replace(/^whsec_/, ''), 'the secret'),
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['verify'],
  );
  const signed = new TextEncoder().encode(`${id}.${sent}.${body}`);
  for (const signature of given.split(' ')) {
    const [version, value] = signature.split(',');
    if (version !== 'v1' || !value) continue;
    if (await crypto.subtle.verify('HMAC', key, bytes(value, 'the signature'), signed)) {
      return { id, ...JSON.parse(body) };
    }
  }
  throw new WebhookRejected('the signature is not that of this body and secret');
}

function bytes(base64: string, what: string): Uint8Array<ArrayBuffer> {
  try {
    if (!base64) throw new Error();
    return Uint8Array.from(atob(base64), (it) => it.charCodeAt(0));
  } catch {
    throw new WebhookRejected(`${what} is missing, or not base64`);
  }
}
