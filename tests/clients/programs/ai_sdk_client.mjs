// One scenario with the AI SDK: ai_sdk_client.mjs PROVIDER BASE_URL MODEL SCENARIO [QUESTIONS]
// The last line of its output is a JSON object with the results of the SDK.

import { createOpenAI } from '@ai-sdk/openai';
import { createOpenResponses } from '@ai-sdk/open-responses';
import { APICallError, generateText, isStepCount, jsonSchema, Output, streamText, tool } from 'ai';

const [provider, baseURL, modelId, scenario, ...questions] = process.argv.slice(2);

const openai = createOpenAI({ baseURL, apiKey: 'any' });
const model =
  provider === 'openai'
    ? openai.responses(modelId)
    : createOpenResponses({ name: 'respondent', url: `${baseURL}/responses`, apiKey: 'any' })(modelId);

const weather = tool({
  description: 'The weather in a city.',
  inputSchema: jsonSchema({
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  }),
  execute: async ({ city }) => `sleet in ${city}`,
});

const recipe = jsonSchema({
  type: 'object',
  properties: { name: { type: 'string' }, minutes: { type: 'integer' } },
  required: ['name', 'minutes'],
  additionalProperties: false,
});

const base = { model, maxRetries: 0 };
const loop = { ...base, tools: { weather }, stopWhen: isStepCount(3), prompt: 'How is the weather in Ghent?' };

async function streamed(options) {
  const parts = [];
  const errors = [];
  const result = streamText({ ...options, onError: ({ error }) => errors.push(String(error?.message ?? JSON.stringify(error))) });
  for await (const part of result.fullStream) parts.push(part);
  const kinds = parts.map((part) => part.type);
  const joined = (kind) => parts.filter((part) => part.type === kind).map((part) => part.text).join('');
  const finish = parts.findLast((part) => part.type === 'finish');
  return {
    kinds,
    text: joined('text-delta'),
    reasoning: joined('reasoning-delta'),
    calls: parts.filter((part) => part.type === 'tool-call').map((part) => ({ name: part.toolName, input: part.input })),
    results: parts.filter((part) => part.type === 'tool-result').map((part) => part.output),
    finish: finish?.finishReason,
    usage: finish?.totalUsage,
    errors,
  };
}

async function generated(options) {
  const result = await generateText(options);
  const calls = result.steps.flatMap((step) => step.toolCalls);
  return {
    text: result.text,
    reasoning: result.steps.map((step) => step.reasoningText ?? '').join(''),
    calls: calls.map((call) => ({ name: call.toolName, input: call.input })),
    finish: result.finishReason,
    usage: result.usage,
    steps: result.steps.length,
  };
}

const scenarios = {
  stream: () => streamed({ ...base, prompt: 'Say it.' }),
  stream_loop: () => streamed(loop),
  stream_loop_unstored: () => streamed({ ...loop, providerOptions: { openai: { store: false } } }),
  // Turns with the hosted search, each with the messages of those before. The texts, if all that they link is a source.
  search: async () => {
    const messages = [];
    const texts = [];
    for (const content of questions) {
      messages.push({ role: 'user', content });
      const result = streamText({ ...base, tools: { web_search: openai.tools.webSearch({}) }, messages });
      await result.consumeStream();
      const { text } = (await result.content).findLast((part) => part.type === 'text');
      const sources = (await result.sources).map(({ url }) => url);
      const links = [...text.matchAll(/\]\((.*?)\)/g)].map((match) => match[1]);
      const areSources = links.length ? links.every((link) => sources.includes(link)) : !sources.length;
      texts.push(areSources ? text : `${text} has the sources ${sources}`);
      messages.push(...(await result.response).messages);
    }
    return texts;
  },
  generate: () => generated({ ...base, prompt: 'Say it.' }),
  generate_loop: () => generated(loop),
  object: async () => {
    const result = await generateText({ ...base, prompt: 'A recipe.', output: Output.object({ schema: recipe }) });
    return { object: result.output };
  },
  error: async () => {
    try {
      await generateText({ ...base, prompt: 'Say it.' });
      return { status: null };
    } catch (error) {
      return { api_error: APICallError.isInstance(error), status: error.statusCode, message: error.message, body: error.responseBody };
    }
  },
  // As a client that nobody has told how often to repeat a failed request.
  repeated: async () => {
    try {
      await generateText({ model, prompt: 'Say it.' });
      return { status: null };
    } catch (error) {
      return { attempts: error.errors?.length, status: error.lastError?.statusCode };
    }
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
