// The Agents SDK for JavaScript: loops, handoffs, structured output, memory, tool_search.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Agent, run, setTracingDisabled, tool, toolNamespace } from '@openai/agents';
import { OpenAIConversationsSession, toolSearchTool } from '@openai/agents-openai';
import { z } from 'zod';

setTracingDisabled(true);
const ask = 'How is the weather in Ghent?';
const sleet = 'The result is sleet in Ghent';
const make = (name, description, key, execute, more = {}) =>
  tool({ name, description, parameters: z.object({ [key]: z.string() }), execute: async (input) => execute(input[key]), ...more });
const weather = make('get_weather', 'The weather in a city.', 'city', (city) => `sleet in ${city}`);
const tickets = make('list_tickets', 'The support tickets of a customer.', 'customer', (name) => `two tickets of ${name}`, { deferLoading: true });
const helper = (more) => new Agent({ name: 'helper', ...more });

test('tool loop', async () => assert.equal((await run(helper({ tools: [weather] }), ask)).finalOutput, sleet));

test('tool loop, streamed', async () => {
  const result = await run(helper({ tools: [weather] }), ask, { stream: true });
  await result.completed;
  assert.equal(result.finalOutput, sleet);
});

test('structured output', async () => {
  const outputType = z.object({ name: z.string(), people: z.number() });
  assert.deepEqual((await run(helper({ outputType }), "'Ghent' has 265 people.")).finalOutput, { name: 'Ghent', people: 265 });
});

test('handoff', async () => {
  const billing = new Agent({ name: 'billing', handoffDescription: 'Answers what is about invoices.' });
  const result = await run(Agent.create({ name: 'desk', handoffs: [billing] }), 'Please transfer my invoices to billing.');
  assert.equal(result.lastAgent.name, 'billing');
});

for (const kind of ['previousResponseId', 'session', 'history']) {
  test(`memory by ${kind}`, async () => {
    const keep = kind === 'session' ? { session: new OpenAIConversationsSession() } : {};
    const first = await run(helper(), 'My word is aloe.', keep);
    const question = { role: 'user', content: 'Which word was it?' };
    if (kind === 'previousResponseId') keep.previousResponseId = first.lastResponseId;
    assert.equal((await run(helper(), kind === 'history' ? [...first.history, question] : question.content, keep)).finalOutput, 'It was aloe.');
  });
}

for (const namespace of [false, true]) {
  test(`deferred function, in a namespace: ${namespace}`, async () => {
    const found = namespace ? toolNamespace({ name: 'crm', description: 'Customers and their tickets.', tools: [tickets] }) : [tickets];
    const result = await run(helper({ tools: [...found, toolSearchTool()] }), "List the support tickets of 'Ada'.");
    assert.equal(result.finalOutput, 'The result is two tickets of Ada');
    const kinds = result.newItems.map((item) => item.type).filter((kind) => kind !== 'reasoning_item');
    assert.deepEqual(kinds.slice(0, 2), ['tool_search_call_item', 'tool_search_output_item']);
  });
}
