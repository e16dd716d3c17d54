// Chromium as the distribution has it, and pages that note what a page must not do.

import {chromium} from 'playwright-core';

// It asks nobody but the server under test.
const kQuiet = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync',
  '--disable-background-networking', '--disable-component-update'];

export function launch() {
  return chromium.launch({
    executablePath: process.env.FERMATA_CHROMIUM ?? '/usr/bin/chromium',
    args: kQuiet,
  });
}

// A page in a context of its own (its own storage). `page.wrongs` lists errors on the console,
// which tells what the page's policy stopped, exceptions, and requests to elsewhere.
export async function newPage(browser, url, options = {}) {
  const context = await browser.newContext({viewport: {width: 1280, height: 800},
    reducedMotion: 'reduce', ...options});
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  page.wrongs = [];
  page.on('console', (message) => {
    if (message.type() === 'error') page.wrongs.push(message.text());
  });
  page.on('pageerror', (error) => page.wrongs.push(String(error)));
  page.on('request', (request) => {
    if (!request.url().startsWith(url)) page.wrongs.push(`it asked ${request.url()}`);
  });
  await page.goto(url);
  return page;
}
