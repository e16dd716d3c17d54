// Makes the picture of the page:
//
//   FERMATA_SERVER=$PWD/build/dev/bin/fermata-server tests/web/run.sh build/dev/tests/web/run \
//     screenshot.mjs $PWD/docs/page.png [light|dark] [WIDTH] [HEIGHT]
//
// with the embedded model and fixed seeds, so that it tells the same stories each time. The fonts are
// the page's first choices where Debian's fonts-inter and fonts-urw-base35 are installed.

import {launch, newPage} from './browser.mjs';
import {Server} from './server.mjs';

const [picture, colorScheme = 'light', width = '1280', height = '800'] = process.argv.slice(2);
const server = await Server.start();
const browser = await launch();

const page = await newPage(browser, server.url, {colorScheme,
  viewport: {width: Number(width), height: Number(height)}});

async function set(values) {
  await page.locator('#settings').evaluate((details) => { details.open = true; });
  for (const [name, value] of Object.entries(values)) await page.locator(`#${name}`).fill(value);
  await page.locator('#settings').evaluate((details) => { details.open = false; });
}

async function say(text, seed, max_tokens) {
  await set({seed: String(seed), max_tokens: String(max_tokens), temperature: '0.5'});
  await page.locator('#prompt').fill(text);
  await page.locator('#prompt').press('Enter');
  await page.locator('#stop').waitFor({state: 'visible'}).catch(() => {});
  await page.locator('#send').waitFor();
  await page.waitForTimeout(200);
}

const name = (id) => page.locator('#id').fill(id);

async function click(name) {
  await page.getByRole('button', {name, exact: true}).click();
  await page.waitForTimeout(200);
}

// Turns of others, so that the figures have something to show.
function others() {
  const controller = new AbortController();
  const body = JSON.stringify({prompt: 'One day', stream: true, ignore_eos: true, max_tokens: 1e6});
  for (let i = 0; i < 3; ++i) {
    fetch(`${server.url}v1/completions`, {method: 'POST', body, signal: controller.signal,
      headers: {'content-type': 'application/json'}})
        .then(async (response) => { for await (const part of response.body) part.length; })
        .catch(() => {});
  }
  return controller;
}

await name('sea');
await say('Lily and her dad went to the sea.', 12, 50);
await say('In the water', 4, 70);
await click('New');
await name('boat');
await say('Tom wanted to build a boat.', 21, 40);
await click('New');
await name('fox');
await say('Once upon a time, there was a little fox who', 3, 40);
await say('The fox', 5, 60);
await click('Fork');
await say('The rabbit said no.', 8, 70);
await click('Fork');
await say('At night, an owl came.', 11, 120);
await page.locator('#tree .row').first().click();
await page.waitForTimeout(200);
await say('But the rabbit was asleep.', 14, 90);
const load = others();
await page.waitForTimeout(2500);  // The figures are of the last second.
await page.mouse.move(0, 0);
await page.screenshot({path: picture});
load.abort();
await browser.close();
await server.stop();
