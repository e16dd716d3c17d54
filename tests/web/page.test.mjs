// The page in a real browser, on the real server.

import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {launch, newPage} from './browser.mjs';
import {faintTexts} from './contrast.mjs';
import {Server} from './server.mjs';

let server;
let browser;

before(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

// ---------------------------------------------------------------- what the tests do and look at

async function rest(method, path, body) {
  const response = await fetch(server.url + path, {
    method,
    body: body && JSON.stringify(body),
    headers: body && {'content-type': 'application/json'},
  });
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.clone().text()}`);
  return response.json();
}

async function noSessions() {
  for (const {id} of (await rest('GET', 'v1/sessions')).sessions) {
    await rest('DELETE', `v1/sessions/${id}`);
  }
}

async function open(options) {
  await noSessions();
  return newPage(browser, server.url, options);
}

async function set(page, values) {
  await page.locator('#settings').evaluate((details) => { details.open = true; });
  for (const [name, value] of Object.entries(values)) await page.locator(`#${name}`).fill(value);
}

const prompt = (page) => page.getByRole('textbox', {name: 'Your text'});
const button = (page, name) => page.getByRole('button', {name, exact: true});
const transcript = (page) => page.locator('#transcript');
const written = (page) => page.locator('#transcript .written').allTextContents();

// One whole turn.
async function say(page, text) {
  const before = (await written(page)).length;
  await prompt(page).fill(text);
  await prompt(page).press('Enter');
  await page.waitForFunction((n) => document.querySelectorAll('#transcript .written').length > n &&
      document.getElementById('stop').hidden, before);
}

// A turn that goes on for long, and its stories with it.
const kLong = {ignore_eos: true, max_tokens: 1_000_000};
async function sayAtLength(page, text) {
  await page.route('**/v1/completions', (route) => route.continue(
      {postData: JSON.stringify({...route.request().postDataJSON(), ...kLong})}));
  await set(page, {seed: '1'});
  await prompt(page).fill(text);
  await prompt(page).press('Enter');
  await page.waitForFunction(() =>
    document.querySelector('#transcript .running')?.textContent.length > 20);
}

const meter = (page, name) => page.locator('#bars').getByRole('meter', {name});
const valueOf = async (locator) => Number(await locator.getAttribute('aria-valuenow'));
const lengthOf = (locator) =>
    locator.locator('.fill').evaluate((fill) => fill.getBoundingClientRect().width);
const position = async (page) => {
  const facts = await page.locator('#facts').textContent();
  return Number(/position ([\d,]+)/.exec(facts)[1].replace(',', ''));
};

async function finish(page) {
  assert.deepEqual(page.wrongs, []);
  await page.context().close();
}

// ---------------------------------------------------------------- the tests

test('is served whole, with a strict policy, and again only when it changed', async () => {
  const response = await fetch(server.url);
  const policy = response.headers.get('content-security-policy');
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /script-src 'self'(;|$)/);
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
  assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
  const html = await response.text();
  const parts = [...html.matchAll(/(?:href|src)="(page\/[^"]+)"/g)].map((match) => match[1]);
  assert.ok(parts.length > 10);
  for (const path of ['', ...parts]) {
    const part = await fetch(server.url + path);
    assert.equal(part.status, 200, path);
    const etag = part.headers.get('etag');
    const again = await fetch(server.url + path, {headers: {'if-none-match': `"other", ${etag}`}});
    assert.equal(again.status, 304, path);
    assert.equal(await again.text(), '');
    const changed = await fetch(server.url + path, {headers: {'if-none-match': '"other"'}});
    assert.equal(changed.status, 200, path);
  }
});

test('streams tokens while the state stays and the cache would grow', async () => {
  const page = await open();
  await set(page, {seed: '3', max_tokens: '40'});
  await say(page, 'Once upon a time, there was a little fox who');
  const text = (await written(page)).join('');
  assert.ok(text.length > 20, text);
  assert.equal(await page.locator('#transcript .typed').first().textContent(),
      'Once upon a time, there was a little fox who');

  const [state, kv] = [meter(page, 'State'), meter(page, 'KV equivalent')];
  const model = await rest('GET', 'v1/model');
  const session = (await rest('GET', 'v1/sessions')).sessions[0];
  assert.equal(await valueOf(state), Number(model.state_bytes));
  assert.equal(await valueOf(kv), Number(session.kv_equivalent_bytes));
  assert.equal(await valueOf(kv),
      Number(model.kv_equivalent_bytes_per_token) * await position(page));
  // On one scale.
  const [stateLength, kvLength] = [await lengthOf(state), await lengthOf(kv)];
  assert.ok(Math.abs(kvLength / stateLength - await valueOf(kv) / await valueOf(state)) < 0.1);

  await say(page, '');
  assert.equal(await valueOf(state), Number(model.state_bytes));
  assert.equal(await lengthOf(state), stateLength);
  assert.ok(await lengthOf(kv) > kvLength * 1.2);
  await finish(page);
});

test('shows text while it comes, and stops; what was written stays', async () => {
  const page = await open();
  await sayAtLength(page, 'One day');
  const soFar = await page.locator('#transcript .running').textContent();
  const kvSoFar = await valueOf(meter(page, 'KV equivalent'));
  await page.waitForFunction((n) =>
    document.querySelector('#transcript .running')?.textContent.length > n, soFar.length);
  assert.ok(await valueOf(meter(page, 'KV equivalent')) >= kvSoFar);
  assert.ok(await button(page, 'Fork').isDisabled());
  await page.keyboard.press('Escape');
  await button(page, 'Continue').waitFor();
  const text = (await written(page)).join('');
  assert.ok(text.startsWith(soFar));
  // The session holds what is shown, no more and no less: so many tokens by the same seed are that.
  const session = (await rest('GET', 'v1/sessions')).sessions[0];
  assert.equal(await position(page), Number(session.position));
  const same = {...kLong, prompt: 'One day', temperature: 0.7, seed: 1};
  const {usage} = await rest('POST', 'v1/completions', {...same, max_tokens: 1});
  const max_tokens = Number(session.position) + 1 - usage.prompt_tokens;
  const whole = await rest('POST', 'v1/completions', {...same, max_tokens});
  assert.equal(whole.choices[0].text, text);
  await finish(page);
});

test('begins a turn that is asked for while the page is at something else after it', async () => {
  const page = await open();
  const slowly = (pattern) => page.route(pattern, async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    await route.fallback();
  });
  for (const path of ['**/v1/model', '**/v1/sessions?*', '**/v1/sessions/*']) await slowly(path);
  await page.reload();
  await sayAtLength(page, 'At once');
  await page.waitForTimeout(1000);  // Nothing that was under way ends the turn, or takes its text.
  assert.equal(await page.locator('#transcript .running').count(), 1);
  await page.keyboard.press('Escape');
  await button(page, 'Continue').waitFor();
  assert.equal((await written(page)).length, 1);
  assert.ok((await written(page))[0].length > 20);

  await button(page, 'New').click();
  await page.unroute('**/v1/completions');
  await set(page, {max_tokens: '5'});
  await say(page, 'Another');
  await page.getByRole('treeitem', {name: /^At once/}).click();
  await say(page, 'And');
  assert.equal((await written(page)).length, 2);
  assert.deepEqual(await transcript(page).locator('.typed').allTextContents(), ['At once', 'And']);
  await finish(page);
});

test('forks at a mark, shows the branch in the tree, rewinds and deletes', async () => {
  const page = await open();
  await set(page, {seed: '5', max_tokens: '20'});
  await say(page, 'Tom had a dog.');
  const first = await position(page);
  await say(page, ' One day');
  const whole = await transcript(page).innerText();
  const tree = page.getByRole('tree', {name: 'Sessions'});
  assert.equal(await tree.getByRole('treeitem').count(), 1);

  await page.getByRole('button', {name: `Position ${first}: fork or rewind`}).click();
  await page.getByRole('menuitem', {name: /Fork from here/}).click();
  await tree.getByRole('treeitem', {level: 2}).waitFor();
  assert.equal(await position(page), first);
  assert.equal((await written(page)).length, 1);
  const {sessions} = await rest('GET', 'v1/sessions');
  const branch = sessions.find((session) => session.parent_id !== '');
  assert.equal(Number(branch.parent_position), first);
  await set(page, {seed: '6'});
  await say(page, ' The dog was sad.');
  assert.match(await tree.getByRole('treeitem', {level: 2}).getAttribute('aria-label'),
      /^The dog was sad\./);

  // The origin is as it was; rewinding takes its last turn back.
  await page.keyboard.press('Alt+ArrowUp');
  await page.waitForFunction((text) =>
    document.getElementById('transcript').innerText === text, whole);
  await button(page, 'Undo turn').click();
  await page.waitForFunction(() => document.querySelectorAll('#transcript .written').length === 1);
  assert.equal(await position(page), first);
  const origin = await rest('GET', `v1/sessions/${branch.parent_id}`);
  assert.equal(Number(origin.position), first);

  // The same turn again gives the same text: the state went back, not the words alone.
  await set(page, {seed: '5'});
  await say(page, ' One day');
  assert.equal((await transcript(page).innerText()), whole);

  await button(page, 'Delete').click();
  const sure = page.getByRole('dialog', {name: 'Delete this session?'});
  await sure.getByRole('button', {name: 'Cancel'}).click();
  assert.equal(await tree.getByRole('treeitem').count(), 2);
  await button(page, 'Delete').click();
  await sure.getByRole('button', {name: 'Delete'}).click();
  await page.waitForFunction(() => document.querySelectorAll('[role=treeitem]').length === 1);
  // The branch is left, as a root that says where it is from.
  assert.equal(await tree.getByRole('treeitem', {level: 1}).count(), 1);
  assert.match(await tree.innerText(), new RegExp(`from ${branch.parent_id.slice(0, 12)}… at ${first}`));
  await finish(page);
});

test('finds everything as it was after a reload, also in the middle of a turn', async () => {
  const page = await open();
  await set(page, {seed: '7', max_tokens: '30'});
  await say(page, 'Lily found a shell.');
  await say(page, ' She');
  const seen = () => Promise.all([transcript(page).innerText(), page.locator('#facts').innerText(),
    page.locator('#tree').innerText(), page.locator('#summary').innerText()]);
  const before = await seen();
  await page.reload();
  await page.locator('#transcript .written').nth(1).waitFor();
  assert.deepEqual(await seen(), before);

  await sayAtLength(page, ' Then');
  await page.waitForTimeout(600);  // What came is kept twice a second.
  await page.reload();
  await page.waitForFunction(() => document.querySelectorAll('#transcript .kept').length >= 4 &&
      !document.querySelector('.running'));
  assert.equal((await written(page)).length, 3);
  assert.ok((await written(page))[2].length > 20);
  await finish(page);
});

test('says so where text was not kept', async () => {
  const page = await open();
  await rest('POST', 'v1/completions',
      {prompt: 'Once upon a time', session: 'elsewhere', max_tokens: 12});
  await page.reload();
  await page.getByRole('treeitem', {name: /^elsewhere/}).click();
  await page.getByText('The text was not kept in this browser').waitFor();
  await set(page, {max_tokens: '10'});
  await say(page, ' and');
  await page.getByText('The text was not kept in this browser').waitFor();
  assert.equal((await written(page)).length, 1);
  await finish(page);
});

test('never takes text for HTML', async () => {
  const page = await open();
  const evil = '<img src=x onerror="window.taken=1"><script>window.taken=1</script>';
  await rest('POST', 'v1/sessions', {id: 'labelled', labels: {title: evil}});
  await page.route('**/v1/completions', async (route) => {
    const event = JSON.stringify({choices: [{index: 0, text: evil, finish_reason: null}]});
    const answer = await route.fetch();
    await route.fulfill({status: answer.status(), headers: {'content-type': 'text/event-stream'},
      body: `data: ${event}\n\ndata: [DONE]\n\n`});
  });
  await set(page, {max_tokens: '5'});
  await say(page, evil);
  assert.deepEqual(await written(page), [evil]);
  assert.equal(await page.locator('#transcript .typed').textContent(), evil);
  await page.reload();  // From what is stored.
  await page.locator('#transcript .written').waitFor();
  assert.deepEqual(await written(page), [evil]);
  await page.getByRole('treeitem').filter({hasText: '<img'}).first().waitFor();
  await page.getByRole('treeitem', {name: /onerror/}).last().click();
  await page.waitForFunction((text) =>
    document.getElementById('name').textContent === text, evil);
  assert.equal(await page.locator('img, script:not([src])').count(), 0);
  assert.equal(await page.evaluate(() => window.taken), undefined);
  await finish(page);
});

test('can be used by keys alone', async () => {
  const page = await open();
  const press = (key) => page.keyboard.press(key);
  await set(page, {seed: '9', max_tokens: '15'});
  await page.reload();
  await page.waitForFunction(() => document.activeElement.id === 'prompt');
  await page.keyboard.type('A cat sat');
  await press('Enter');
  await button(page, 'Continue').waitFor();
  await press('Alt+f');
  await page.getByRole('treeitem', {level: 2}).waitFor();
  await page.keyboard.type(' and ran');
  await press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('#transcript .written').length === 2);
  await button(page, 'Continue').waitFor();
  // To the mark of the first turn, and its menu.
  for (let i = 0; i < 6; ++i) {
    await press('Shift+Tab');
    if (await page.evaluate(() => document.activeElement.matches('.mark'))) break;
  }
  await press('Shift+Tab');
  assert.match(await page.evaluate(() => document.activeElement.getAttribute('aria-label')),
      /^Position \d+: fork or rewind$/);
  await press('Enter');
  await page.getByRole('menu').waitFor();
  await press('Escape');
  assert.match(await page.evaluate(() => document.activeElement.className), /mark/);
  await press('Enter');
  await press('ArrowDown');
  await press('Enter');  // Rewind to here.
  await page.waitForFunction(() => document.querySelectorAll('#transcript .written').length === 1);
  // Through the tree.
  for (let i = 0; i < 30; ++i) {
    await press('Shift+Tab');
    if (await page.evaluate(() => document.activeElement.matches('[role=treeitem]'))) break;
  }
  await press('ArrowLeft');
  await press('Enter');
  await page.locator('[aria-level="1"][aria-selected=true]').waitFor();
  await press('ArrowRight');
  await press('Delete');
  await page.getByRole('dialog').waitFor();
  await press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('[role=treeitem]').length === 1);
  await press('Alt+n');
  await page.waitForFunction(() => document.activeElement.id === 'prompt');
  await press('Alt+k');
  await page.getByRole('dialog', {name: 'Keys'}).waitFor();
  await press('Escape');
  await finish(page);
});

test('names everything for those who do not see it', async () => {
  const page = await open();
  await set(page, {seed: '2', max_tokens: '60', temperature: '0.7'});
  await page.evaluate(() => {  // What is spoken.
    window.spoken = [];
    new MutationObserver(() => window.spoken.push(document.getElementById('spoken').textContent))
        .observe(document.getElementById('spoken'), {childList: true});
  });
  await say(page, 'The sun was warm.');
  const tools = await page.context().newCDPSession(page);
  const {nodes} = await tools.send('Accessibility.getFullAXTree');
  const named = ['button', 'textbox', 'spinbutton', 'radio', 'meter', 'treeitem', 'tree',
    'navigation', 'log'];
  const found = nodes.filter((node) => !node.ignored && named.includes(node.role?.value));
  for (const role of named) assert.ok(found.some((node) => node.role.value === role), role);
  for (const node of found) assert.ok(node.name?.value.trim(), JSON.stringify(node));
  const spoken = (await page.evaluate(() => window.spoken)).filter(Boolean);
  assert.match(spoken.at(-1), /position \d+/);
  await finish(page);
});

for (const colorScheme of ['light', 'dark']) {
  test(`is readable, also at 360 pixels: ${colorScheme}`, async () => {
    const page = await open({colorScheme, viewport: {width: 360, height: 740}});
    const fits = async (where) => {
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 360, `${where} is ${width} wide`);
      assert.deepEqual(await page.evaluate(faintTexts), [], where);
    };
    await fits('the welcome');
    await set(page, {seed: '4', max_tokens: '60'});
    await fits('the settings');
    await say(page, 'Once there was a verylongwordthatdoesnotfitintooneline'.repeat(3));
    await button(page, 'Fork').click();
    await say(page, ' Then');
    await fits('a text');
    await page.getByRole('button', {name: /^Sessions/}).click();
    await page.getByRole('treeitem', {level: 2}).waitFor();
    await fits('the sessions');
    await button(page, 'Keys').click();
    await fits('the keys');
    await page.keyboard.press('Escape');
    await page.setViewportSize({width: 1280, height: 800});
    assert.deepEqual(await page.evaluate(faintTexts), []);
    await finish(page);
  });
}

test('says when the server is busy, and tries again', async () => {
  const page = await open();
  let refused = 0;
  const busy = {
    status: 429,
    headers: {'retry-after': '1', 'content-type': 'application/json'},
    body: JSON.stringify({error: {message: 'too many requests wait', type: 'rate_limit_error',
      param: null, code: 'QUEUE_FULL'}}),
  };
  await page.route('**/v1/completions', (route) =>
    (refused++ > 0 ? route.continue() : route.fulfill(busy)));
  await set(page, {max_tokens: '10'});
  await prompt(page).fill('Hello');
  await prompt(page).press('Enter');
  await page.getByRole('alert').getByText('too many requests wait').waitFor();
  assert.equal(await prompt(page).inputValue(), 'Hello');
  await button(page, 'Try again').click();
  await page.locator('#transcript .written').waitFor();
  await button(page, 'Continue').waitFor();
  assert.ok(await page.getByRole('alert').isHidden());
  page.wrongs = page.wrongs.filter((text) => !text.includes('429'));
  await finish(page);
});

test('keeps the text when the server dies in a turn, and goes on with another', async () => {
  const own = await Server.start();
  const page = await newPage(browser, own.url);
  try {
    await sayAtLength(page, 'It was dark.');
    await own.stop('SIGKILL');
    await page.getByRole('alert').getByText('The connection was lost').waitFor();
    const text = (await written(page)).join('');
    assert.ok(text.length > 20);
    const again = await Server.start([`--http_address=127.0.0.1:${own.port}`]);
    try {
      await page.getByText('The session is gone from the server').waitFor();
      assert.ok((await written(page)).join('').startsWith(text.slice(0, 20)));
      await button(page, 'Begin anew with this text').click();
      assert.ok((await prompt(page).inputValue()).startsWith('It was dark.'));
      await page.unroute('**/v1/completions');
      await set(page, {max_tokens: '5'});
      await say(page, 'It was light.');
      const {sessions} = await (await fetch(`${again.url}v1/sessions`)).json();
      assert.equal(sessions.length, 1);
    } finally {
      await again.stop();
    }
  } finally {
    await page.context().close();
  }
});
