import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type RunningBrowser, startBrowser } from './browser.ts';
import { prepareCrawl } from './console-crawl-script.ts';
import { crawl } from './console-crawl.ts';

let running: RunningBrowser;
before(async () => {
  running = await startBrowser();
});
after(() => running.close());

/** A page whose elements say by their name whether they do something. */
const html = `<!doctype html><title>Page</title><main id="page" tabindex="-1"><h1 tabindex="-1">Page</h1>
  <a href="/console/streams">live: another page</a>
  <a href="/console/streams?q=1" id="kept">dead: is kept</a>
  <a href="/console/login" id="swallowed">dead: a router takes what is none of its pages</a>
  <a href="/docs">live: a document</a>
  <button id="sends">live: a request</button>
  <button>dead: nothing listens</button>
  <button disabled>disabled: cannot be pressed</button>
  <button popovertarget="menu">live: opens a menu</button>
  <div id="menu" popover><span role="menuitem" tabindex="0">dead: of the menu</span></div>
  <button id="focus">live: moves the focus</button><input id="field">
  <button id="listed">listed: changes a text</button><p id="text"></p>
  <label><input type="checkbox">dead: a checkbox</label>
  <div style="position: relative"><button>dead: is covered</button><div style="position: absolute; inset: 0"></div></div>
  <div role="group"><button aria-pressed="true">dead: back to the choice</button>
    <button aria-pressed="false" id="chosen">listed: another choice</button></div>
  <button id="once">dead: is gone the next time</button>
  <button id="asks">live: asks first</button>
  <dialog><h2>Ask</h2><button id="close">live: closes</button>
    <footer><button id="confirm">live: confirms</button><button>dead: of the dialog</button></footer></dialog>
  <ul>${[1, 2, 3].map((row) => `<li><button>dead: of row ${row}</button></li>`).join('')}</ul>
</main><script>
  const on = (id, act) => document.getElementById(id)?.addEventListener('click', act);
  on('kept', (event) => event.preventDefault());
  on('swallowed', (event) => { event.preventDefault(); history.pushState(null, '', '/console/login'); });
  on('sends', () => fetch('/api/v2/logs'));
  on('focus', () => document.getElementById('field').focus());
  if (localStorage.getItem('once') !== null) document.getElementById('once').remove();
  on('once', () => localStorage.setItem('once', ''));
  on('asks', () => document.querySelector('dialog').showModal());
  on('close', () => document.querySelector('dialog').close());
  on('confirm', () => fetch('/api/v2/streams'));
  on('chosen', ({ target }) => {
    target.previousElementSibling.setAttribute('aria-pressed', 'false');
    target.setAttribute('aria-pressed', 'true');
    document.getElementById('text').textContent = 'chosen';
  });
  on('listed', () => { document.getElementById('text').textContent = 'changed'; });
</script>`;

test(
  'a crawl finds each element once, and those without an effect',
  { tags: ['long'] },
  async (t) => {
    const context = await running.browser.newContext();
    t.after(() => context.close());
    await prepareCrawl(context);
    const page = await context.newPage();
    await page.route('**/*', (route) => route.fulfill({ contentType: 'text/html', body: html }));
    const { pressed, dead, gone } = await crawl({
      page,
      start: 'http://localhost/console/',
      isWithin: (path) => path === '/console/',
      effectChecks: 100,
      exceptions: [{ element: /listed: /, changes: 'text', reason: 'it says so in a text' }],
    });
    const elements = pressed.map(({ element }) => element);
    assert.deepEqual(elements, [
      '/console: link live: another page to /console/streams',
      '/console: link dead: is kept to /console/streams',
      '/console: link dead: a router takes what is none of its pages to /console/login',
      '/console: link live: a document to /docs',
      '/console: button live: a request',
      '/console: button dead: nothing listens',
      '/console: button live: opens a menu',
      '/console: button live: moves the focus',
      '/console: button listed: changes a text',
      '/console: checkbox dead: a checkbox',
      '/console: button dead: is covered',
      '/console: button listed: another choice',
      '/console: button dead: is gone the next time',
      '/console: button live: asks first',
      '/console: row  button dead: of row 0',
      '/console > button live: opens a menu: menuitem dead: of the menu',
      '/console > button listed: another choice: button dead: back to the choice',
      '/console > button live: asks first: button live: closes',
      // What changes something comes last.
      '/console > button live: asks first: button live: confirms',
      '/console > button live: asks first: button dead: of the dialog',
    ]);
    assert.deepEqual(
      dead.map((line) => elements.find((element) => line.startsWith(`${element}: `))),
      elements.filter((element) => element.includes('dead: ')),
    );
    assert.deepEqual(gone, []);
  },
);

test('a planted dead link is found, and an exception whose element has stopped to change what it names', async (t) => {
  const context = await running.browser.newContext();
  t.after(() => context.close());
  await prepareCrawl(context);
  const page = await context.newPage();
  const body = `<main id="page"><h1>Page</h1><button>Copy</button><a href="/console/login">Sign in</a></main>
    <script>document.querySelector('a').addEventListener('click', (event) => {
      event.preventDefault();
      history.pushState(null, '', '/console/login');
    })</script>`;
  await page.route('**/*', (route) => route.fulfill({ contentType: 'text/html', body }));
  const { dead } = await crawl({
    page,
    start: 'http://localhost/console/',
    exceptions: [{ element: /Copy/, changes: 'clipboard', reason: 'it copies' }],
    effectChecks: 60,
  });
  assert.deepEqual(dead, [
    '/console: button Copy: no effect',
    '/console: link Sign in to /console/login: is kept from the browser',
  ]);
});
