// One scenario with the OpenAI SDK or the Agents SDK for JavaScript: stored_client.mjs BASE_URL MODEL SCENARIO FOLDER
// The last line of its output is a JSON object with the results.

import { Agent, OpenAIConversationsSession, OpenAIResponsesModel, run, setTracingDisabled, tool, toolNamespace } from '@openai/agents';
import { toolSearchTool } from '@openai/agents-openai';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { z } from 'zod';

const [baseURL, model, scenario, folder] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: 'any', maxRetries: 0, timeout: 45_000 });
setTracingDisabled(true);

const questions = ['My word is aloe.', 'How is the get_weather in Ghent?', 'Which word was it?'];
const weather = tool({
  name: 'get_weather',
  description: 'The weather in a city.',
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `sleet in ${city}`,
});
const agent = new Agent({ name: 'helper', instructions: 'Be brief.', model: new OpenAIResponsesModel(client, model), tools: [weather] });

async function collected(iterable) {
  const all = [];
  for await (const element of iterable) all.push(element);
  return all;
}

async function caught(request) {
  try {
    await request();
    return {};
  } catch (error) {
    return { status: error.status, code: error.code };
  }
}

const same = (left, right) => JSON.stringify(left) === JSON.stringify(right);
const create = (input, more = {}) => client.responses.create({ model, input, ...more });

async function polled(response) {
  for (let tries = 0; ['queued', 'in_progress'].includes(response.status) && tries < 900; tries++) {
    await pause(50);
    response = await client.responses.retrieve(response.id);
  }
  return response;
}

// Messages of a WebSocket as the stream that they are over HTTP. The checker knows no lanes.
function leaveStream(messages) {
  const frames = messages.map(({ stream_id, ...event }) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  writeFileSync(`${folder}/${messages[0].response.id}.sse`, `${frames.join('')}data: [DONE]\n\n`);
}

const terminal = ['response.completed', 'response.failed', 'response.incomplete'];

const scenarios = {
  // One of many deferred tools, which the model searches for, and calls again in the next turn without a search.
  async tool_search() {
    const deferred = (name, description, field, execute) =>
      tool({ name, description, parameters: z.object({ [field]: z.string() }), execute, deferLoading: true });
    const reports = Array.from({ length: 20 }, (_, n) =>
      deferred(`report_${n}`, `Report ${n}: ${'sums of sales. '.repeat(30)}`, 'month', async ({ month }) => `report ${n} of ${month}`));
    const tickets = deferred('list_tickets', 'The support tickets of a customer.', 'customer', async ({ customer }) => `two tickets of ${customer}`);
    const tools = toolNamespace({ name: 'crm', description: 'Customers and sales.', tools: [...reports, tickets] });
    const seller = new Agent({ name: 'seller', model: new OpenAIResponsesModel(client, model), tools: [...tools, toolSearchTool()] });
    const first = await run(seller, 'Which tickets has Ada?');
    const second = await run(seller, [...first.history, { role: 'user', content: 'And Bo?' }]);
    const kinds = [first, second].map((result) => result.newItems.map((item) => item.type));
    return { texts: [first.finalOutput, second.finalOutput], kinds };
  },
  // A warm-up, a continued response, an error, and two lanes from one of which a third one forks.
  async websocket() {
    const socket = new ResponsesWS(client);
    const records = socket.stream();
    const ask = (input, more = {}) => socket.send({ type: 'response.create', model, input, store: false, ...more });
    // The responses that end on these lanes, or the error that comes first. The lane without a name is 'undefined'.
    const ended = async (...lanes) => {
      const messages = Object.fromEntries(lanes.map((lane) => [lane, []]));
      const responses = {};
      while (Object.keys(responses).length < lanes.length) {
        const { value: record, done } = await records.next();
        if (done || record.type === 'close') throw new Error('the connection is closed');
        if (record.type === 'error') return record.error;
        if (record.type !== 'message') continue;
        const message = record.message;
        const lane = messages[message.stream_id];
        lane.push(message);
        if (!terminal.includes(message.type)) continue;
        leaveStream(lane);
        responses[message.stream_id] = message.response;
      }
      return lanes.map((lane) => responses[lane]);
    };
    ask('Be brief.', { generate: false });
    const [warm] = await ended('undefined');
    ask('The first.', { previous_response_id: warm.id });
    const [first] = await ended('undefined');
    ask('Lost.', { previous_response_id: 'resp_lost' });
    const { error } = await ended('undefined');
    ask('Plan.', { previous_response_id: first.id, stream_id: 'planner' });
    ask('Another.', { stream_id: 'other' });
    const [plan, other] = await ended('planner', 'other');
    ask('Criticise.', { previous_response_id: plan.id, stream_id: 'critic' });
    const [critic] = await ended('critic');
    socket.close();
    const text = (response) => response.output.flatMap((item) => item.content ?? []).map((part) => part.text ?? '').join('');
    return {
      texts: [warm, first, plan, other, critic].map(text),
      statuses: [warm, first, plan, other, critic].map((response) => response.status),
      error: { status: error.status, code: error.error.code },
    };
  },
  // The event of a webhook as it was sent, changed, and signed by another secret.
  async webhook() {
    const ended = await polled(await create('Say it.', { background: true }));
    const path = `${folder}/event.json`;
    for (let tries = 0; !existsSync(path) && tries < 1500; tries++) await pause(20);
    const { body, headers, secret } = JSON.parse(readFileSync(path, 'utf8'));
    const event = await client.webhooks.unwrap(body, headers, secret);
    const isRefused = async (changed, of = headers, by = secret) => {
      try {
        await client.webhooks.unwrap(changed, of, by);
        return false;
      } catch (error) {
        return error instanceof OpenAI.InvalidWebhookSignatureError;
      }
    };
    return {
      type: event.type,
      same: event.data.id === ended.id,
      refused: [
        await isRefused(body.replace('completed', 'failed')),
        await isRefused(`${body} `),
        await isRefused(body, { ...headers, 'webhook-id': 'evt_1' }),
        await isRefused(body, headers, 'whsec_b3RoZXI='),
        await isRefused(body),
      ],
    };
  },
  // Responses: read back, continued, listed, deleted.
  async responses() {
    const first = await create('My word is aloe.');
    const second = await create('Which word was it?', { previous_response_id: first.id });
    const read = await client.responses.retrieve(second.id);
    const items = await client.responses.inputItems.list(second.id, { order: 'asc' });
    await client.responses.delete(first.id);
    return {
      texts: [first.output_text, second.output_text],
      read: same(read.output, second.output) && read.previous_response_id === first.id,
      items: items.data.length,
      deleted: await caught(() => client.responses.retrieve(first.id)),
      unknown: await caught(() => create('Go on.', { previous_response_id: `resp_${'0'.repeat(32)}` })),
    };
  },
  // A background response: polled; its stream cut off and resumed; cancelled twice.
  async background() {
    const ended = await polled(await create('A long answer, please.', { background: true }));
    const seen = [];
    for await (const event of await create('A long answer, please.', { background: true, stream: true })) {
      seen.push(event);
      if (seen.length === 5) break;
    }
    const { id } = seen[0].response;
    const after = seen.at(-1).sequence_number;
    const rest = await collected(await client.responses.retrieve(id, { stream: true, starting_after: after }));
    const helped = client.responses.stream({ response_id: id, starting_after: after });
    const numbers = [...seen, ...rest].map((event) => event.sequence_number);
    const running = await create('please-wait', { background: true });
    // What has ended before it is cancelled stays as it ended.
    const cancel = () => client.responses.cancel(running.id).catch(() => client.responses.retrieve(running.id));
    const cancelled = [(await cancel()).status, (await cancel()).status];
    return {
      status: ended.status,
      text: ended.output_text,
      numbers: numbers.every((number, at) => number === at),
      last: rest.at(-1).type,
      helped: same((await helped.finalResponse()).output_text, rest.at(-1).response.output[0].content[0].text),
      cancelled,
      foreground: await caught(async () => client.responses.cancel((await create('My word is aloe.')).id)),
    };
  },
  async conversations() {
    const { id } = await client.conversations.create({ metadata: { topic: 'test' }, items: [{ type: 'message', role: 'user', content: 'My word is aloe.' }] });
    const turn = await create('Which word was it?', { conversation: id });
    const items = await collected(client.conversations.items.list(id, { order: 'asc', limit: 2 }));
    const one = await client.conversations.items.retrieve(items[0].id, { conversation_id: id });
    await client.conversations.items.delete(items[0].id, { conversation_id: id });
    const updated = await client.conversations.update(id, { metadata: { topic: 'changed' } });
    const left = await collected(client.conversations.items.list(id));
    const gone = await client.conversations.delete(id);
    return {
      text: turn.output_text,
      roles: items.map((item) => item.role),
      one: one.id === items[0].id,
      metadata: updated.metadata,
      left: left.length,
      deleted: gone.deleted,
      unknown: await caught(() => client.conversations.retrieve(id)),
    };
  },
  async previous_response() {
    const texts = [];
    let previousResponseId;
    for (const question of questions) {
      const result = await run(agent, question, { previousResponseId });
      previousResponseId = result.lastResponseId;
      texts.push(result.finalOutput);
    }
    return { texts };
  },
  async conversation_id() {
    const { id } = await client.conversations.create({});
    const texts = [];
    for (const question of questions) texts.push((await run(agent, question, { conversationId: id })).finalOutput);
    const items = await collected(client.conversations.items.list(id, { order: 'asc' }));
    return { texts, kinds: items.map((item) => item.type) };
  },
  async conversations_session() {
    const session = new OpenAIConversationsSession({ client });
    const texts = [];
    for (const question of questions) {
      const result = await run(agent, question, { session, stream: true });
      await result.completed;
      texts.push(result.finalOutput);
    }
    const items = await session.getItems();
    const popped = await session.popItem();
    const left = await session.getItems();
    await session.clearSession();
    return { texts, kinds: items.map((item) => item.type ?? 'message'), popped: popped !== undefined && left.length === items.length - 1 };
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
