// Asks Hone with OpenAI's library for Node and with the Vercel AI SDK, by their own defaults: `URL`.
import assert from 'node:assert/strict';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, Output, streamText } from 'ai';
import OpenAI from 'openai';
import { z } from 'zod';

const baseURL = process.argv[2];
const apiKey = 'placeholder';
const model = 'hone';
const messages = [
  { role: 'system', content: 'You are a helpful assistant.' },
  { role: 'user', content: 'Explain refunds.' },
];

function saysDraft(name, text) {
  assert.match(text, /^Draft number/, name);
  console.log(`${name}: ${text.slice(0, 15)}`);
}

const client = new OpenAI({ baseURL, apiKey });
const completion = await client.chat.completions.create({ model, messages });
saysDraft('openai for Node', completion.choices[0].message.content);
let text = '';
for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
  text += chunk.choices[0]?.delta.content ?? '';
}
saysDraft('openai for Node, streamed', text);
const response = await client.responses.create({ model, input: 'Explain refunds.' });
saysDraft('openai for Node, responses', response.output_text);

const prompt = 'Explain refunds.';
const schema = z.object({ days: z.number().int() });
for (const [name, provider] of [
  ['@ai-sdk/openai', createOpenAI({ baseURL, apiKey })],
  [
    '@ai-sdk/openai-compatible',
    createOpenAICompatible({ name: 'hone', baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true }),
  ],
]) {
  saysDraft(name, (await generateText({ model: provider(model), system: 'Be kind.', prompt })).text);
  const streamed = streamText({ model: provider(model), prompt, onError: ({ error }) => { throw error; } });
  saysDraft(`${name}, streamed`, await streamed.text);
  assert.ok((await streamed.usage).outputTokens > 0, name);
  const found = await generateText({ model: provider(model), prompt: 'As JSON.', experimental_output: Output.object({ schema }) });
  console.log(`${name}, object:`, found.experimental_output ?? found.output);
}
console.log('succeeded');
