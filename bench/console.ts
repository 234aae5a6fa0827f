import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from '../test/helpers/browser.ts';
import { contentSelectors, oneTimeLink } from '../test/helpers/console-page.ts';
import { storeEnvironment, waitFor } from '../test/helpers/leat.ts';
import type { Bench, Figure } from './bench.ts';
import { consoleOf, fillConsoleStore } from './console-store.ts';
import { createTempStore, type Running, startLeat, type TempStore } from './leat.ts';
import { wait } from './proc.ts';

const firstViewMsMax = 1000;
const feedbackMsMax = 100;
/** Until a node that has just started owns its streams and has read what it needs of them. */
const startSeconds = 15;
const domain = 'localhost';
const content = contentSelectors.signedIn;

/** A page of the console. */
interface MeasuredPage {
  readonly name: string;
  /** Its heading: another page must not be measured in its place. */
  readonly heading: string;
  /** Below `/console`. */
  readonly path: string;
  /** What is pressed, as a selector of Playwright; absent without feedback to measure. */
  readonly press?: string;
}

const pages: readonly MeasuredPage[] = [
  { name: 'overview', heading: 'Overview', path: '/', press: 'nav a[href$="/streams"]' },
  { name: 'streams', heading: 'Streams', path: '/streams', press: 'main a[href*="/streams/est_"]' },
];

/** The time until a person sees something, in Chromium on this machine. */
export const consolePages: Bench = {
  name: 'console',
  what: `${consoleOf.streams.toLocaleString('en')} streams, a million events and ${consoleOf.failures.toLocaleString('en')} open failures on SQLite: the first view of each page of the console, and the feedback after a press, measured in Chromium`,
  run: async (progress, { events = consoleOf.events, rounds, cases = '' }) => {
    const silent = createServer();
    await new Promise<void>((resolve) => void silent.listen(0, '127.0.0.1', resolve));
    const silentPort = (silent.address() as AddressInfo).port;
    const tempStore = await createTempStore();
    let leat: Running | undefined;
    try {
      await fillConsoleStore(tempStore, { events, silentPort }, progress);
      // Attempts at the silent receiver stay under way, so that states stay as they are.
      const settings = { LEAT_ATTEMPT_TIMEOUT_MS: '600000', LEAT_CONCURRENCY: '64' };
      progress('starting');
      leat = await startLeat(tempStore, settings);
      await wait(startSeconds);
      const wanted = pages.filter(({ name }) => name.includes(cases));
      return await measureAll({ leat, tempStore }, wanted, { rounds, progress });
    } finally {
      await leat?.end();
      silent.close();
      await tempStore.remove();
    }
  },
};

interface Service {
  readonly leat: Running;
  readonly tempStore: TempStore;
}

async function measureAll(
  { leat, tempStore }: Service,
  wanted: readonly MeasuredPage[],
  { rounds, progress }: { readonly rounds: number; readonly progress: (text: string) => void },
): Promise<Figure[]> {
  const origin = `http://${domain}:${leat.port}/console`;
  const { browser, close } = await startBrowser();
  try {
    const env = { ...storeEnvironment(tempStore), LEAT_PORT: String(leat.port) };
    const page = await signedIn(browser, await oneTimeLink('operator', env, tempStore));
    const figures: Figure[] = [];
    for (const { name, heading, path, press } of wanted) {
      progress(name);
      const url = origin + path;
      const views: number[] = [];
      const feedback: number[] = [];
      for (let round = 0; round < rounds; round += 1) {
        views.push(await firstViewMs(page, url));
        const shown = await page.locator(content).first().innerText();
        if (shown !== heading) throw new Error(`${url} is "${shown}", not "${heading}"`);
        if (press !== undefined) feedback.push(await feedbackMs(page, press));
      }
      figures.push(figure(`${name}: first view`, views, firstViewMsMax));
      if (press !== undefined) figures.push(figure(`${name}: feedback`, feedback, feedbackMsMax));
    }
    return figures;
  } finally {
    await close();
  }
}

async function signedIn(browser: Browser, link: string): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  await context.addInitScript({ content: stopwatch });
  const page = await context.newPage();
  await page.goto(link);
  await page.locator(content).first().waitFor();
  return page;
}

/**
 * Runs in the page before its scripts. The first view is over at the first frame that has the content;
 * feedback is the first frame after a press in which anything differs.
 */
const stopwatch = `
  const content = ${JSON.stringify(content)};
  const watch = () => {
    if (document.querySelector(content) === null) requestAnimationFrame(watch);
    else window.firstViewMs = performance.now();
  };
  requestAnimationFrame(watch);
  addEventListener('click', (event) => {
    if (!event.isTrusted) return;
    const pressedMs = event.timeStamp;
    const observer = new MutationObserver(() => {
      observer.disconnect();
      requestAnimationFrame(() => { window.feedbackMs = performance.now() - pressedMs; });
    });
    observer.observe(document, {
      subtree: true, childList: true, attributes: true, characterData: true,
    });
  }, true);`;

async function firstViewMs(page: Page, url: string): Promise<number> {
  // Another document, so that a page of the same one is loaded again.
  await page.goto('about:blank');
  await page.goto(url);
  return valueOf(page, 'firstViewMs');
}

async function feedbackMs(page: Page, press: string): Promise<number> {
  await page.evaluate('delete window.feedbackMs');
  await page.locator(press).first().click();
  return valueOf(page, 'feedbackMs');
}

async function valueOf(page: Page, name: string): Promise<number> {
  // Not by a function that the page polls itself, which the policy of the pages forbids.
  const read = async (): Promise<number | undefined> => page.evaluate(`window.${name}`);
  return waitFor(name, read, { intervalMsFirst: 20 });
}

function figure(name: string, values: readonly number[], most: number): Figure {
  return {
    name,
    detail: `median of ${values.length}`,
    values,
    unit: 'ms',
    must: { kind: 'most', value: most },
    goal: undefined,
  };
}
