import type { Page } from 'playwright-core';
import { pageAddresses } from '../../src/console/links.ts';
import { collectAll, describe, fillTyped, goTo, settle } from './console-crawl-script.ts';
import { waitFor } from './wait.ts';

/** What the press of an element changed. */
export type Effect =
  | 'address'
  | 'request'
  | 'dialog'
  | 'focus'
  | 'text'
  | 'checked'
  | 'clipboard'
  | 'theme';

/** A page, and the elements that were pressed on it one after the other. */
export interface State {
  readonly url: string;
  readonly steps: readonly string[];
  readonly where: string;
  /** Names of the elements that were there before each step. */
  readonly before?: ReadonlySet<string>;
}

export interface Task {
  readonly state: State;
  readonly element: string;
  readonly name: string;
  /** What it changes if it has none of the effects that count. */
  readonly changes: Effect | 'nothing';
}

/** `later`: it may change something; `last`: it ends the session. */
export type Turn = 'first' | 'later' | 'last';

/** An element as the script in the page sees it. */
interface Found {
  readonly index: number;
  readonly name: string;
  readonly turn: Turn;
  /** Of a link. */
  readonly href: string;
  readonly isFrame: boolean;
  readonly isForKeys: boolean;
}

export interface Collected {
  readonly elements: readonly Found[];
  /** Where all links lead, also those of further rows. */
  readonly hrefs: readonly string[];
}

export interface Outcome {
  readonly effects: readonly Effect[];
  readonly problem?: string;
  /** What can be pressed afterwards, and the names of what could be before. */
  readonly after: Collected;
  readonly before: ReadonlySet<string>;
}

export interface WalkerOptions {
  readonly page: Page;
  /** Names of things that the pages list: an element is the same whatever the name in it. */
  readonly names?: readonly string[];
  /** How many checks of the page an effect may take; 400 by default. Only an element without one takes them. */
  readonly effectChecks?: number;
}

/** Opens pages, and presses their elements. */
export function createWalker({ page, names = [], effectChecks = 400 }: WalkerOptions): {
  /** Opens a page and what was opened on it; returns whether that is still possible. */
  open(state: State): Promise<boolean>;
  collect(): Promise<Collected>;
  press(task: Task): Promise<Outcome | 'gone'>;
} {
  let dialogs = 0;
  let documents = 0;
  page.on('dialog', (dialog) => {
    dialogs += 1;
    void dialog.accept();
  });
  page.on('request', (request) => {
    if (request.isNavigationRequest()) documents += 1;
  });
  const others = new Set<Page>();
  page.context().on('page', (other) => others.add(other));

  const settled = async (): Promise<void> => {
    try {
      const isThere = () => page.evaluate<boolean>(settle).catch(() => false);
      await waitFor('the content of the page', isThere);
    } catch (cause) {
      const present = await page.evaluate<string>(describe).catch(String);
      throw new Error(`the content of ${page.url()} does not come: ${present}`, { cause });
    }
  };
  const collect = async (): Promise<Collected> =>
    JSON.parse(await page.evaluate<string>(`${collectAll}(${JSON.stringify(names)})`)) as Collected;
  /** Dialogs open, and lists are drawn, a moment after what they need has arrived. */
  const collectWith = async (name: string): Promise<Collected & { readonly found?: Found }> => {
    for (let left = 20; ; left -= 1) {
      const collected = await collect();
      const found = collected.elements.find((each) => each.name === name);
      if (found !== undefined) return { ...collected, found };
      if (left === 0) return collected;
      await page.evaluate(`crawl.until(${effectChecks / 20}, () => false)`);
    }
  };
  const click = async ({ index, isForKeys }: Found): Promise<string | undefined> => {
    try {
      // Not a locator: of an element that is gone that waits for another one.
      const target = await page.$(`[data-crawl="${index}"]`);
      // What shows only once it has the focus is for the keyboard.
      if (isForKeys) await target?.press('Enter');
      else if (await page.evaluate<boolean>(`crawl.canClick(${effectChecks}, ${index})`)) {
        await target?.click();
      } else return 'cannot be pressed: it is gone, disabled, or something is above it';
      return undefined;
    } catch (error) {
      return `cannot be pressed: ${String(error).split('\n').slice(0, 8).join(' ')}`;
    }
  };
  const open = async ({ url, steps }: State): Promise<boolean> => {
    if (!(await page.evaluate<boolean>(goTo(url)).catch(() => false))) await page.goto(url);
    await settled();
    for (const step of steps) {
      const { found } = await collectWith(step);
      if (found === undefined || (await click(found)) !== undefined) return false;
      await settled();
      await page.evaluate(fillTyped);
    }
    return true;
  };
  /** Presses an element; again when it was not there any more: what a page reads again replaces elements. */
  const pressNamed = async (
    name: string,
  ): Promise<{ before: readonly Found[]; found: Found; problem?: string } | 'gone'> => {
    for (let left = 1; ; left -= 1) {
      const { elements: before, found } = await collectWith(name);
      if (found === undefined) return 'gone';
      await page.evaluate(`crawl.mark(${found.index})`);
      const problem = await click(found);
      if (problem === undefined) return { before, found };
      if (left === 0) return { before, found, problem };
    }
  };

  return {
    open,
    collect,
    press: async (task) => {
      if (!(await open(task.state))) return 'gone';
      const was = { dialogs, documents };
      const pressed = await pressNamed(task.name);
      if (pressed === 'gone') return 'gone';
      const { before, found, problem } = pressed;
      const known = new Set(before.map(({ name }) => name));
      if (problem !== undefined) return { effects: [], problem, after: nothing, before: known };
      const hasActed = (): boolean =>
        dialogs > was.dialogs || documents > was.documents || others.size > 0;
      // Another document ends the script.
      if (!hasActed()) {
        const effect = `crawl.effect(${effectChecks}, ${JSON.stringify(task.changes)})`;
        await page.evaluate(effect).catch(() => undefined);
      }
      const outside: Effect[] = [
        ...(documents > was.documents || others.size > 0 ? (['address'] as const) : []),
        ...(dialogs > was.dialogs ? (['dialog'] as const) : []),
      ];
      const isKept = isLeft(found.href) && outside.length === 0;
      for (const other of others) await other.close();
      others.clear();
      if (documents > was.documents) {
        await page.waitForLoadState();
        return { effects: outside, after: nothing, before: known };
      }
      await settled();
      const effects = await page.evaluate<Effect[]>('crawl.allEffects()');
      // The router shows a page for it, or none, whatever the address leads to.
      if (isKept)
        return { effects: [], problem: 'is kept from the browser', after: nothing, before: known };
      if ((await page.title()).startsWith('Nothing here')) {
        return {
          effects: [],
          problem: `leads to no page: ${page.url()}`,
          after: nothing,
          before: known,
        };
      }
      return { effects: [...outside, ...effects], after: await collect(), before: known };
    },
  };
}

/** Returns whether a link leads to no page of the console, so that the browser has to open it. */
function isLeft(href: string): boolean {
  if (href === '') return false;
  const { pathname, search, hash } = new URL(href);
  return hash === '' && !pageAddresses.test(`${pathname}${search}`);
}

const nothing: Collected = { elements: [], hrefs: [] };
