// OpenAI's own client on the real server.

import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {promisify} from 'node:util';

import OpenAI from 'openai';

import {Server, eventually} from './server.mjs';

const SESSIONS = 'fermata_sessions{tier="memory"}';
const PROMPT = 'Once upon a time there was a little dragon who wanted to fly over the sea. One day';

let server;
let openai;
let model;

before(async () => {
  server = await Server.start();
  openai = connect(server);
  model = (await openai.models.list()).data[0].id;
});

after(() => server?.stop());

// ---------------------------------------------------------------- what the tests share

const connect = (where, options = {}) => new OpenAI(
  {baseURL: `${where.url}v1`, apiKey: 'none', maxRetries: 0, ...options});

const complete = (fields, options) => openai.completions.create(
  {model, prompt: PROMPT, max_tokens: 12, seed: 7, ...fields}, options);

const user = (content) => ({role: 'user', content});
const assistant = (content) => ({role: 'assistant', content});

const chat = (messages, fields, options) => openai.chat.completions.create(
  {model, messages, max_tokens: 12, seed: 7, ...fields}, options);

async function all(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

async function metric(name, where = server) {
  const text = await (await fetch(`${where.url}metrics`)).text();
  const line = text.split('\n').find((line) => line.startsWith(`${name} `));
  assert.ok(line, `there is no metric ${name}`);
  return Number(line.slice(name.length + 1));
}

async function post(path, body, headers = {}, where = server) {
  return fetch(`${where.url}v1/${path}`, {
    method: 'POST',
    body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
    headers: {'content-type': 'application/json', ...headers},
  });
}

const tokenize = async (prompt) => (await (await post('tokenize', {prompt})).json()).tokens;

const mean = (logprobs) => logprobs.reduce((a, b) => a + b, 0) / logprobs.length;

// ---------------------------------------------------------------- completions

test('models', async () => {
  const found = await openai.models.retrieve(model);
  assert.equal(found.id, model);
  assert.equal(found.object, 'model');
  await assert.rejects(openai.models.retrieve('gpt-4'), OpenAI.NotFoundError);
});

test('a completion', async () => {
  const {data, response} = await complete().withResponse();
  assert.equal(data.object, 'text_completion');
  assert.equal(data.model, model);
  assert.match(data.id, /^cmpl-/);
  assert.equal(data.choices.length, 1);
  assert.equal(data.choices[0].finish_reason, 'length');
  assert.equal(data.usage.completion_tokens, 12);
  assert.equal(data.usage.prompt_tokens, (await tokenize(PROMPT)).length);
  assert.equal(data.usage.total_tokens, 12 + data.usage.prompt_tokens);
  assert.match(response.headers.get('x-request-id'), /^req_/);
});

test('a stream is the completion in pieces', async () => {
  const whole = await complete();
  const chunks = await all(await complete({stream: true, stream_options: {include_usage: true}}));
  assert.equal(chunks.map((chunk) => chunk.choices[0]?.text ?? '').join(''), whole.choices[0].text);
  for (const field of ['id', 'object', 'created', 'model']) {
    assert.equal(new Set(chunks.map((chunk) => chunk[field])).size, 1, field);
  }
  const last = chunks.pop();
  assert.deepEqual(last.choices, []);
  assert.equal(last.usage.completion_tokens, 12);
  assert.equal(chunks.pop().choices[0].finish_reason, 'length');
  for (const chunk of chunks) {
    assert.equal(chunk.usage, null);
    assert.equal(chunk.choices[0].finish_reason, null);
  }
});

test('the same tokens as over gRPC', {skip: !process.env.FERMATA_CLI}, async () => {
  const ports = JSON.parse(readFileSync(join(server.directory, 'ports'), 'utf8'));
  const {stdout} = await promisify(execFile)(process.env.FERMATA_CLI, [
    'generate', PROMPT, '--server', `127.0.0.1:${ports.grpc}`, '-n', '40', '--seed', '11']);
  const {choices} = await complete({max_tokens: 40, seed: 11});
  assert.equal(choices[0].text.trimEnd(), stdout.trimEnd());
});

test('stop strings end the text before them', async () => {
  const {text} = (await complete({max_tokens: 40})).choices[0];
  const stop = text.trim().split(' ')[3];
  const stopped = (await complete({max_tokens: 40, stop: [stop]})).choices[0];
  assert.equal(stopped.text, text.slice(0, text.indexOf(stop)));
  assert.equal(stopped.finish_reason, 'stop');
});

test('n choices read the prompt once, and leave nothing behind', async () => {
  const sessions = await metric(SESSIONS);
  const one = await complete();
  const four = await complete({n: 4});
  assert.deepEqual(four.choices.map((choice) => choice.index), [0, 1, 2, 3]);
  assert.equal(four.choices[0].text, one.choices[0].text);
  assert.equal(new Set(four.choices.map((choice) => choice.text)).size, 4);
  assert.equal(four.usage.prompt_tokens, one.usage.prompt_tokens);
  assert.equal(four.usage.completion_tokens, 48);
  assert.deepEqual((await complete({n: 4})).choices, four.choices);

  const chunks = await all(await complete({n: 4, stream: true}));
  const texts = ['', '', '', ''];
  for (const {choices: [choice]} of chunks) texts[choice.index] += choice.text;
  assert.deepEqual(texts, four.choices.map((choice) => choice.text));
  assert.equal(await metric(SESSIONS), sessions);
});

test('best_of picks by the mean log-probability', async () => {
  const {choices} = await complete({n: 5, logprobs: 0});
  choices.sort((a, b) => mean(b.logprobs.token_logprobs) - mean(a.logprobs.token_logprobs));
  const best = await complete({n: 2, best_of: 5});
  assert.deepEqual(best.choices.map((choice) => choice.text),
    choices.slice(0, 2).map((choice) => choice.text));
  assert.equal(best.choices[0].logprobs, null);
  assert.equal(best.usage.completion_tokens, 60);
});

test('prompts in a list are answered in order', async () => {
  const prompts = [PROMPT, 'Tom had a cat.', await tokenize('The sun')];
  const {choices, usage} = await complete({prompt: prompts.slice(0, 2), n: 2});
  assert.deepEqual(choices.map((choice) => choice.index), [0, 1, 2, 3]);
  const second = await complete({prompt: prompts[1]});
  assert.equal(choices[2].text, second.choices[0].text);
  assert.equal(usage.prompt_tokens,
    (await tokenize(PROMPT)).length + (await tokenize(prompts[1])).length);
  assert.equal((await complete({prompt: prompts[2]})).choices[0].text,
    (await complete({prompt: 'The sun'})).choices[0].text);
});

test('echo scores what was generated as it was when it was generated', async () => {
  const generated = (await complete({temperature: 0, logprobs: 3})).choices[0];
  const {tokens, token_logprobs: logprobs, top_logprobs: top} = generated.logprobs;
  assert.equal(tokens.length, 12);
  tokens.forEach((token, i) => {
    assert.ok(Math.abs(top[i][token] - logprobs[i]) < 1e-6);
    assert.equal(Math.max(...Object.values(top[i])), logprobs[i]);
  });
  const echoed = (await complete({
    prompt: PROMPT + generated.text, max_tokens: 0, echo: true, logprobs: 0})).choices[0];
  assert.equal(echoed.text, PROMPT + generated.text);
  assert.equal(echoed.logprobs.token_logprobs[0], null);
  const scored = echoed.logprobs.token_logprobs.slice(-12);
  scored.forEach((logprob, i) => assert.ok(Math.abs(logprob - logprobs[i]) < 1e-3));
  const offsets = echoed.logprobs.text_offset;
  echoed.logprobs.tokens.forEach((token, i) => {
    assert.equal(echoed.text.slice(offsets[i], offsets[i] + token.length), token);
  });

  const both = (await complete({echo: true, logprobs: 0, temperature: 0})).choices[0];
  assert.equal(both.text, PROMPT + generated.text);
  assert.equal(both.logprobs.tokens.join(''), both.text);
});

// ---------------------------------------------------------------- chats

test('a chat, whole and streamed', async () => {
  const whole = await chat([user(PROMPT)], {logprobs: true, top_logprobs: 2});
  const {message, logprobs, finish_reason: reason} = whole.choices[0];
  assert.equal(whole.object, 'chat.completion');
  assert.equal(message.role, 'assistant');
  assert.equal(reason, 'length');
  assert.equal(logprobs.content.map(({token}) => token).join(''), message.content);
  assert.equal(logprobs.content[0].top_logprobs.length, 2);
  // The default model has no form for chats but its text.
  assert.equal(message.content, (await complete()).choices[0].text);

  const chunks = await all(await chat([user(PROMPT)], {stream: true}));
  assert.deepEqual(chunks[0].choices[0].delta, {role: 'assistant', content: '', refusal: null});
  assert.equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''),
    message.content);
  assert.deepEqual(chunks.at(-1).choices[0].delta, {});
  assert.equal(chunks.at(-1).choices[0].finish_reason, 'length');

  const helper = openai.chat.completions.stream({model, messages: [user(PROMPT)], max_tokens: 12,
    seed: 7});
  assert.equal(await helper.finalContent(), message.content);
});

test('a whole history costs what is new, a session the same without it', async () => {
  const ends = ['. The dragon', '. Then he', '. In the end'];
  const messages = [user(`Tom had a red ball. He liked to play with it in the park. ${PROMPT}`)];
  for (const [i, end] of [...ends, ''].entries()) {
    const whole = await chat(messages, {temperature: 0});
    const answer = whole.choices[0].message.content;
    const {data, response} = await chat([messages.at(-1)], {temperature: 0, session: 'tale'})
      .withResponse();
    assert.equal(response.headers.get('x-session-id'), 'tale');
    assert.equal(data.session.id, 'tale');
    assert.ok(data.session.state_bytes > 0);
    assert.equal(data.choices[0].message.content, answer, `turn ${i}`);
    if (i > 0) {
      const {prompt_tokens: tokens, prompt_tokens_details: details} = whole.usage;
      assert.ok(details.cached_tokens > tokens - 10, `${details.cached_tokens} of ${tokens}`);
    }
    messages.push(assistant(answer), user(end));
  }
});

test('a session by header, in a stream', async () => {
  const first = await chat([user('Tom had a dog.')], {}, {headers: {'x-session-id': 'tom'}});
  const {data: stream, response} = await chat(
    [user(' The dog')], {stream: true, stream_options: {include_usage: true}},
    {headers: {'x-session-id': 'tom'}}).withResponse();
  assert.equal(response.headers.get('x-session-id'), 'tom');
  assert.equal(response.headers.get('x-accel-buffering'), 'no');
  const chunks = await all(stream);
  assert.ok(chunks.at(-1).session.position > first.session.position);
  assert.equal(chunks.at(-1).session.state_bytes, first.session.state_bytes);
});

// ---------------------------------------------------------------- errors and retries

test('errors name the field as the client knows it', async () => {
  const refused = async (promise) => {
    const error = await promise.then(() => assert.fail('was not refused'), (error) => error);
    assert.equal(error.type, error.status === 404 ? 'not_found_error' : 'invalid_request_error');
    return error;
  };
  const range = await refused(complete({temperature: 9}));
  assert.ok(range instanceof OpenAI.BadRequestError);
  assert.equal(range.param, 'temperature');
  assert.equal(range.code, 'INVALID_FIELD');
  // What only the engine checks.
  assert.equal((await refused(complete({top_p: 0}))).param, 'top_p');
  assert.equal((await refused(complete({min_tokens: 13}))).param, 'min_tokens');
  assert.equal((await refused(complete({prompt: [1, 2 ** 30]}))).param, 'prompt[1]');
  assert.equal((await refused(complete({prompt: ''}))).param, 'prompt');
  assert.equal((await refused(complete({stop: ['']}))).param, 'stop[0]');
  assert.equal((await refused(complete({logit_bias: {999999: 1}}))).param,
    'logit_bias[999999]');
  assert.equal((await refused(complete({session: 'a b'}))).param, 'session');
  assert.equal((await refused(complete({suffix: 'x'}))).param, 'suffix');
  assert.equal((await refused(chat([{role: 'user', content: [{type: 'image_url',
    image_url: {url: 'data:'}}]}]))).param, 'messages[0].content[0].type');
  const other = await refused(complete({model: 'gpt-4'}));
  assert.ok(other instanceof OpenAI.NotFoundError);
  assert.equal(other.code, 'model_not_found');
  assert.equal((await refused(complete({n: 2, session: 'x'}, {}))).param, 'n');
});

test('bodies that are no requests', async () => {
  const notUtf8 = Buffer.from('{"prompt": "\xff"}', 'latin1');
  for (const body of
    ['', '{', '[]', '"x"', '['.repeat(100000), '{"prompt": "\\udc00"}', notUtf8]) {
    const response = await post('completions', body);
    assert.equal(response.status, 400, String(body).slice(0, 20));
    assert.ok((await response.json()).error.message);
  }
  assert.equal((await fetch(`${server.url}v1/completions`)).status, 405);
});

test('a busy session is tried again, what can not succeed is not', async () => {
  const held = await complete({stream: true, session: 'busy', max_tokens: 100000,
    ignore_eos: true});
  const first = await held[Symbol.asyncIterator]().next();
  assert.equal(first.done, false);
  let requests = 0;
  const counting = connect(server, {maxRetries: 8, fetch: (...args) => {
    if (++requests === 2) held.controller.abort();
    return fetch(...args);
  }});
  const next = await counting.completions.create(
    {model, prompt: ' Then', max_tokens: 3, session: 'busy'});
  assert.equal(next.usage.completion_tokens, 3);
  assert.ok(requests > 1);

  requests = 0;
  const again = {idempotencyKey: 'one', headers: {'idempotency-key': 'one'}};
  await counting.completions.create({model, prompt: 'Tom', max_tokens: 3}, again);
  await assert.rejects(
    counting.completions.create({model, prompt: 'Ann', max_tokens: 3}, again),
    (error) => error instanceof OpenAI.ConflictError && error.code === 'REQUEST_ID_REUSED' &&
      error.headers.get('x-should-retry') === 'false');
  assert.equal(requests, 2);
});

test('a request that is sent twice takes one turn', async () => {
  for (const [i, ask] of [
    (options) => complete({prompt: ' And', session: 'twice', temperature: 1}, options),
    (options) => chat([user(' And')], {session: 'twice', temperature: 1}, options),
  ].entries()) {
    const options = {headers: {'idempotency-key': `twice-${i}`}};
    const first = await ask(options);
    const second = await ask(options);
    assert.deepEqual(second.choices, first.choices);
    assert.deepEqual(second.session, first.session);
  }
});

test('a client that goes stops its turns', async () => {
  for (const fields of [{}, {n: 3}, {stream: true}, {stream: true, n: 3}]) {
    const gone = new AbortController();
    const sessions = await metric(SESSIONS);
    const asking = complete({max_tokens: 100000, ignore_eos: true, ...fields},
      {signal: gone.signal}).then(all).catch((error) => error);
    await eventually(async () => await metric('fermata_running_requests') >= (fields.n ?? 1));
    gone.abort();
    await asking;
    await eventually(async () => await metric('fermata_running_requests') === 0);
    await eventually(async () => await metric(SESSIONS) === sessions);
  }
});

// ---------------------------------------------------------------- other ways of serving

test('a stream that waits says that it is alive', async () => {
  const narrow = await Server.start(['--max_running=1', '--stream_ping_interval=20ms']);
  try {
    const client = connect(narrow);
    const held = await client.completions.create(
      {model, prompt: PROMPT, max_tokens: 100000, ignore_eos: true, stream: true});
    await held[Symbol.asyncIterator]().next();
    const response = await post('completions',
      {prompt: PROMPT, max_tokens: 2, stream: true}, {}, narrow);
    let text = '';
    for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
      text += part;
      if (text.includes(': ping\n\n')) held.controller.abort();
    }
    assert.match(text, /^: ping\n\n/);
    assert.match(text, /data: \[DONE\]\n\n$/);
  } finally {
    await narrow.stop();
  }
});

test('a template that is named writes the chat, and ends it', async () => {
  const rwkv = await Server.start(['--chat_template=rwkv']);
  try {
    const messages = [user('Hi!'), assistant('Hello.'), user('Tell me a story.')];
    const response = await post('tokenize', {messages}, {}, rwkv);
    const {tokens} = await response.json();
    const text = await (await post('detokenize', {tokens}, {}, rwkv)).json();
    assert.equal(text.prompt,
      'User: Hi!\n\nAssistant: Hello.\n\nUser: Tell me a story.\n\nAssistant:');
  } finally {
    await rwkv.stop();
  }
});

test('tokens and texts', async () => {
  const tokens = await tokenize('Once upon a time');
  const response = await post('detokenize', {tokens});
  assert.equal((await response.json()).prompt, 'Once upon a time');
  assert.equal((await post('detokenize', {tokens: [2 ** 30]})).status, 400);
  assert.equal((await post('tokenize', {})).status, 400);
});
