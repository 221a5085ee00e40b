import type * as schema from './schema.js';

/** A piece of a text that is being written. It is not journaled: its `event` is 0. */
export interface DeltaEvent {
  event: 0;
  type: 'step.delta';
  data: { key: string; offset: number; text: string };
}

/** Something that happened to a refinement; `event` counts 1, 2, 3 ... without gaps. */
export type Event = schema.EventPage['data'][number] | DeltaEvent;

const TERMINAL = new Set(['refinement.completed', 'refinement.failed', 'refinement.canceled']);

/** Whether the refinement has ended with it. A retry may follow the end of a failed one. */
export const isTerminal = (event: Event): boolean => TERMINAL.has(event.type);

export interface Message {
  event: string;
  data: string;
}

/** Yield the messages of a stream of server-sent events (WHATWG), without comments. */
export async function* messages(body: ReadableStream<Uint8Array>): AsyncGenerator<Message> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let pending = '';
  let fields: { event: string; data: string[] } = { event: '', data: [] };
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      pending += decoder.decode(value, { stream: true });
      const lines = pending.split(/\r\n|\n|\r(?!$)/);
      pending = lines.pop() ?? '';
      for (const line of lines) {
        if (line === '') {
          if (fields.data.length) yield { event: fields.event, data: fields.data.join('\n') };
          fields = { event: '', data: [] };
        } else if (line.startsWith('event:')) fields.event = line.slice(6).replace(/^ /, '');
        else if (line.startsWith('data:')) fields.data.push(line.slice(5).replace(/^ /, ''));
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Return the event of a message; throw SyntaxError if it is none. */
export function readEvent(message: Message): Event {
  const body = JSON.parse(message.data);
  if (message.event === 'step.delta') return { event: 0, type: 'step.delta', data: body };
  if (typeof body?.event !== 'number') throw new SyntaxError('no event');
  return body;
}
