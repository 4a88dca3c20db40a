// The AI SDK on provider.responses.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount, Output, streamText, tool } from 'ai';
import { z } from 'zod';

globalThis.AI_SDK_LOG_WARNINGS = false;
const model = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: 'any' }).responses('gpt-5');
const weather = tool({ description: 'The weather in a city.', inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => `sleet in ${city}` });
const sleet = 'The result is sleet in Ghent';

test('empty prompt', async () => assert.ok((await generateText({ model, messages: [{ role: 'user', content: '' }] })).finishReason));

for (const store of [true, false]) {
  const providerOptions = { openai: { store, reasoningEffort: 'low', reasoningSummary: 'auto' } };
  const loop = { model, tools: { weather }, stopWhen: isStepCount(4), prompt: 'How is the weather in Ghent?', providerOptions };
  test(`tool loop, store ${store}`, async () => {
    const result = await generateText(loop);
    assert.equal(result.text, sleet);
    assert.match(result.steps[0].reasoningText, /Step 1/);
  });
  test(`tool loop streamed, store ${store}`, async () => {
    const result = streamText(loop);
    await result.consumeStream();
    assert.equal(await result.text, sleet);
  });
}

test('output object', async () => {
  const output = Output.object({ schema: z.object({ name: z.string(), people: z.number() }) });
  assert.deepEqual((await generateText({ model, prompt: "'Ghent' has 265 people.", output })).output, { name: 'Ghent', people: 265 });
});

test('memory by previousResponseId', async () => {
  const first = await generateText({ model, prompt: 'My word is aloe.' });
  const providerOptions = { openai: { previousResponseId: first.providerMetadata.openai.responseId } };
  assert.equal((await generateText({ model, prompt: 'Which word was it?', providerOptions })).text, 'It was aloe.');
});

test('length', async () => assert.equal((await generateText({ model, prompt: 'Tell me 100 words.', maxOutputTokens: 16 })).finishReason, 'length'));

test('file', async () => {
  const file = { type: 'file', mediaType: 'application/pdf', filename: 'a.pdf', data: new Uint8Array([37, 80, 68, 70]) };
  assert.match((await generateText({ model, messages: [{ role: 'user', content: [{ type: 'text', text: 'Read it.' }, file] }] })).text, /\(file\)/);
});
