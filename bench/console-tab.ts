import type { Browser, BrowserContext, Page } from 'playwright-core';
import { contentSelectors, followLink } from '../test/helpers/console-page.ts';
import { waitFor } from '../test/helpers/leat.ts';
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

/** Something that is pressed, and where that must show. Presses change nothing that others measure. */
interface Press {
  /** What it leads to. */
  readonly name: string;
  /** What is pressed, as a selector of Playwright: the first that a page has. */
  readonly on: string;
  /** A key that is pressed there instead of the mouse. */
  readonly key?: string;
  /** A CSS selector: feedback is the first change that is seen within. */
  readonly part: string;
}

const heading = '#page h1';
const rows = '#page .table-frame, #page .skeleton, #page .delivery-head';
/** Below the head and the tabs. */
const tabContent = '#page > :not(.page-head, nav)';
/** Buttons that ask first. */
const asking = 'Pause|Delete this stream|Show secret|Start a replay|Redeliver|Send';

/** What a page has of these is pressed. */
const presses: readonly Press[] = [
  { name: 'next page', on: '#page a[rel=next]', part: rows },
  { name: 'row', on: '#page tbody a', part: `${heading}, ${rows}` },
  { name: 'sort', on: '#page th a[href*="sort=-"]', part: rows },
  { name: 'status', on: '#page a[href*="statuses=failing"]', part: rows },
  { name: 'one by one', on: '#page a[href*="view=list"]', part: rows },
  { name: 'filter', on: '#page:has(tbody) label select', key: 'ArrowDown', part: rows },
  { name: 'tab', on: '#page nav.tabs a', part: tabContent },
  { name: 'window', on: '#page a[href*="window=week"]', part: '#page .sums, #page .chart' },
  { name: 'form', on: '#page a[href$="edit=yes"]', part: '#page form' },
  { name: 'letter', on: '#page form:has(.save-bar) input', key: 'x', part: '.save-bar' },
  { name: 'dialog', on: `#page button:text-matches("^(${asking})")`, part: 'dialog[open]' },
  { name: 'publish', on: '#page button:text-is("Publish")', part: '#page form' },
  { name: 'choice', on: '#page .chosen input', part: '#page .chosen' },
  { name: 'payload', on: '#page button[aria-expanded]', part: '#page .event-search' },
];

/** What a person waits for on a page, in milliseconds. */
export interface PageTimes {
  /** The first view with an empty cache, and the last one with a warm one. */
  readonly cold: number;
  readonly warm: number;
  /** By the name of the press. */
  readonly feedback: ReadonlyMap<string, number>;
}

/** Views a page in a tab with an empty cache, and presses what it has. */
export async function measurePage(
  browser: Browser,
  storageState: SignedIn,
  url: string,
): Promise<PageTimes> {
  const context = await browser.newContext({
    storageState,
    viewport: { width: 1440, height: 900 },
    // That of a machine without one, en-US@posix, is no language tag: the charts fail on it.
    locale: 'en-GB',
  });
  await context.addInitScript({ content: stopwatch(new URL(url).pathname) });
  const page = await context.newPage();
  const cold = await view(page, url);
  let warm = await view(page, url);
  const feedback = new Map<string, number>();
  for (const press of presses) {
    if ((await pressable(page, press).count()) === 0) continue;
    feedback.set(press.name, await pressOn(page, press));
    // The next press begins with the page as it was.
    warm = await view(page, url);
  }
  await context.close();
  return { cold, warm, feedback };
}

/** Loads the page and returns the time until its content was there. */
async function view(page: Page, url: string): Promise<number> {
  // Another document, so that a page of the same one is loaded again.
  await page.goto('about:blank');
  await page.goto(url);
  return valueOf(page, 'firstViewMs', url);
}

/** A person looks at a page first; meanwhile the console reads the files of other pages. */
const beforePressSeconds = 2;

/** What is chosen already shows nothing. */
const pressable = (page: Page, { on }: Press) =>
  page.locator(on).and(page.locator(':not([aria-current]):visible'));

/** Presses something on the page and returns the time until that was seen. */
async function pressOn(page: Page, press: Press): Promise<number> {
  const { key, part, name } = press;
  await wait(beforePressSeconds);
  const pressed = pressable(page, press).first();
  // As somebody does who presses it: what it acts on is seen then.
  await pressed.evaluate(intoView);
  if (key !== undefined) await pressed.focus();
  await page.evaluate(`watchFeedback(${JSON.stringify(part)})`);
  await (key === undefined ? pressed.click() : page.keyboard.press(key));
  return valueOf(page, 'feedbackMs', `${name} on ${page.url()}`);
}

function intoView(element: { scrollIntoView(options: object): void }): void {
  element.scrollIntoView({ block: 'center' });
}

/**
 * Runs in the page before its scripts. The first view is over at the first frame in which nothing of the page still
 * loads, and no error stands in its place; feedback is the first frame after a press in which something on the screen differs within a part.
 */
function stopwatch(path: string): string {
  return `
  const isHere = () =>
    location.pathname === ${JSON.stringify(path)} &&
    document.querySelector(${JSON.stringify(contentSelectors.signedIn)}) !== null &&
    document.querySelector('.chart:not(:has(.uplot)), #page [role=alert]') === null;
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
