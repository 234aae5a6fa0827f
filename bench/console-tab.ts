import type { Browser, BrowserContext, Page } from 'playwright-core';
import { contentSelectors, followLink } from '../test/helpers/console-page.ts';
import { waitFor } from '../test/helpers/leat.ts';
import type { MeasuredPage, Press } from './console-pages.ts';
import { wait } from './proc.ts';

/** Cookies of somebody who is signed in. */
export type SignedIn = Awaited<ReturnType<BrowserContext['storageState']>>;

/** Signs in with a one-time link. */
export async function signIn(browser: Browser, link: string): Promise<SignedIn> {
  const context = await browser.newContext();
  const page = await context.newPage();
  await followLink(page, link);
  await page.locator(contentSelectors.signedIn).first().waitFor();
  const state = await context.storageState();
  await context.close();
  return state;
}

/** A tab with an empty cache, for one page. */
export interface Tab {
  /** Loads the page and returns the time until its content was there. */
  view(): Promise<number>;
  /** Presses something on the page and returns the time until that was seen. */
  press(press: Press): Promise<number>;
  close(): Promise<void>;
}

/** A person looks at a page first; meanwhile the console reads the files of other pages. */
const beforePressSeconds = 2;

export async function openTab(
  browser: Browser,
  { storageState, url }: { readonly storageState: SignedIn; readonly url: string },
  { heading, content }: MeasuredPage,
): Promise<Tab> {
  const context = await browser.newContext({
    storageState,
    viewport: { width: 1440, height: 900 },
    // That of a machine without one, en-US@posix, is no language tag: the charts fail on it.
    locale: 'en-GB',
  });
  await context.addInitScript({
    content: stopwatch(heading, [contentSelectors.signedIn, content]),
  });
  const page = await context.newPage();
  return {
    view: async () => {
      // Another document, so that a page of the same one is loaded again.
      await page.goto('about:blank');
      await page.goto(url);
      return valueOf(page, 'firstViewMs', `${heading} at ${url}`);
    },
    press: async ({ on, key, part, name }) => {
      await wait(beforePressSeconds);
      const pressed = page.locator(on).first();
      // As somebody does who presses it: what it acts on is seen then.
      await pressed.evaluate(intoView);
      if (key !== undefined) await pressed.focus();
      await page.evaluate(`watchFeedback(${JSON.stringify(part)})`);
      await (key === undefined ? pressed.click() : page.keyboard.press(key));
      return valueOf(page, 'feedbackMs', `${name} on ${url}`);
    },
    close: () => context.close(),
  };
}

function intoView(element: { scrollIntoView(options: object): void }): void {
  element.scrollIntoView({ block: 'center' });
}

/**
 * Runs in the page before its scripts. The first view is over at the first frame that has the heading and the content;
 * feedback is the first frame after a press in which something on the screen differs within a part.
 */
function stopwatch(heading: string, content: readonly string[]): string {
  return `
  const content = ${JSON.stringify(content)};
  const isHere = () =>
    document.querySelector('#page h1')?.textContent === ${JSON.stringify(heading)} &&
    content.every((one) => document.querySelector(one) !== null);
  const watch = () => {
    if (isHere()) window.firstViewMs = performance.now();
    else requestAnimationFrame(watch);
  };
  requestAnimationFrame(watch);
  const isOnScreen = (element) => {
    const { width, height, top, bottom } = element.getBoundingClientRect();
    return width > 0 && height > 0 && bottom > 0 && top < innerHeight;
  };
  const elementOf = (node) => (node instanceof Element ? node : node.parentElement);
  const placesOf = (part) => ({ target, addedNodes }) => [
    ...[target, ...addedNodes].map(elementOf).filter((element) => element?.closest(part)),
    ...[...addedNodes].map((node) => (node instanceof Element ? node.querySelector(part) : null)),
  ];
  window.watchFeedback = (part) => {
    delete window.feedbackMs;
    const observer = new MutationObserver((records) => {
      const places = records.flatMap(placesOf(part)).filter((element) => element !== null);
      if (!places.some(isOnScreen)) return;
      observer.disconnect();
      requestAnimationFrame(() => { window.feedbackMs = performance.now() - pressedMs; });
    });
    let pressedMs;
    const press = (event) => {
      // A key on a button is followed by a click.
      if (!event.isTrusted || pressedMs !== undefined) return;
      pressedMs = event.timeStamp;
      observer.observe(document, {
        subtree: true, childList: true, attributes: true, characterData: true,
      });
    };
    addEventListener('click', press, true);
    addEventListener('keydown', press, true);
  };`;
}

async function valueOf(page: Page, name: string, what: string): Promise<number> {
  // Not by a function that the page polls itself, which the policy of the pages forbids.
  const read = async (): Promise<number | undefined> => page.evaluate(`window.${name}`);
  return waitFor(`${name} of ${what}`, read, { intervalMsFirst: 20, stallMs: 30_000 });
}
