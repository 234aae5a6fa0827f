import type { BrowserContext, Page } from 'playwright-core';
import { pageAddresses, pagePaths } from '../../src/console/links.ts';
import { contentSelectors } from './console-page.ts';
import { waitFor } from './wait.ts';

/**
 * Uses every button, link, menu item, tab and checkbox of the console as a person with a mouse does, and
 * finds those without an effect.
 */

/** What the press of an element changed. */
type Effect =
  | 'address'
  | 'request'
  | 'dialog'
  | 'focus'
  | 'text'
  | 'checked'
  | 'clipboard'
  | 'theme';

/** Elements that change neither address, request, dialog nor focus, and what they change instead. */
export interface Exception {
  /** Matches the end of {@link Pressed.element}. */
  readonly element: RegExp;
  readonly changes: 'text' | 'checked' | 'clipboard' | 'theme' | 'nothing';
  readonly reason: string;
}

/** An element that was pressed. */
interface Pressed {
  /** Page, what was opened on it, role and name; the rows of a list are one. */
  readonly element: string;
  readonly effects: readonly Effect[];
}

export interface Crawl {
  readonly pressed: readonly Pressed[];
  /** Elements without an effect, and those that cannot be pressed. */
  readonly dead: readonly string[];
  /** Elements that were gone when it was their turn. */
  readonly gone: readonly string[];
}

interface CrawlOptions {
  readonly page: Page;
  /** Where it begins; it stays on this origin. */
  readonly start: string;
  readonly exceptions: readonly Exception[];
  /** Names of things that the pages list: an element is the same whatever the name in it. */
  readonly names?: readonly string[];
  /** Elements that are found but not pressed, as they were before. */
  readonly known?: ReadonlySet<string>;
  /** How long an effect may take; 2 s by default. Only an element without one takes it. */
  readonly effectMs?: number;
  /** Whether a page is opened; by default all pages of the console are. */
  readonly isWithin?: (path: string) => boolean;
}

/** Call it before the first page of the context is opened. */
export async function prepareCrawl(context: BrowserContext): Promise<void> {
  await context.addInitScript({ content: observe });
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
}

/** How many pages of one kind are opened, to find what only some have: of streams, and of one tab of them. */
const pagesOfKind = { whole: 12, view: 2 };

/** Crawls from the page where somebody has just signed in. Confirms what asks first at the end; signs out last. */
export async function crawl(options: CrawlOptions): Promise<Crawl> {
  const { page, start, known = new Set() } = options;
  const walker = createWalker(options);
  const states: State[] = [{ url: start, steps: [], where: whereOf(start) }];
  const seen = new Set<string>([keyOf(start)]);
  const perKind = new Map<string, number>();
  const found = new Set<string>();
  const waiting: Record<Turn, Task[]> = { first: [], later: [], last: [] };
  const pressed: Pressed[] = [];
  const dead: string[] = [];
  const gone: string[] = [];

  const lead = (address: string): void => {
    const url = address.replace(/#.*$/s, '');
    const { origin, pathname } = new URL(url);
    if (origin !== new URL(start).origin || !isPage(pathname, options)) return;
    const where = whereOf(url);
    const key = keyOf(url);
    const opened = perKind.get(where) ?? 0;
    const most = where.includes('=') ? pagesOfKind.view : pagesOfKind.whole;
    if (seen.has(key) || opened >= most) return;
    seen.add(key);
    perKind.set(where, opened + 1);
    states.push({ url, steps: [], where });
  };
  const note = (state: State, { elements, hrefs }: Collected): void => {
    for (const href of hrefs) lead(href);
    for (const each of elements) {
      const element = `${each.isFrame ? 'frame' : state.where}: ${each.name}`;
      if (found.has(element) || state.before?.has(each.name) === true) continue;
      found.add(element);
      if (known.has(element)) pressed.push({ element, effects: [] });
      else waiting[each.turn].push({ state, element, name: each.name });
    }
  };

  for (;;) {
    const state = states.shift();
    if (state !== undefined) {
      if (await walker.open(state)) note(state, await walker.collect());
      continue;
    }
    const task = waiting.first.shift() ?? waiting.later.shift() ?? waiting.last.shift();
    if (task === undefined) break;
    const isIdle = (tried: Outcome | 'gone'): boolean =>
      tried !== 'gone' && isDead(task.element, tried.effects, options.exceptions);
    let outcome = await walker.press(task);
    // A page that draws itself again meanwhile, or a machine that stands still, is no defect.
    if (isIdle(outcome)) outcome = await walker.press(task);
    if (outcome === 'gone') {
      gone.push(task.element);
      continue;
    }
    pressed.push({ element: task.element, effects: outcome.effects });
    if (isIdle(outcome)) {
      dead.push(`${task.element}: ${outcome.problem ?? (outcome.effects.join() || 'no effect')}`);
    }
    if (page.url() !== task.state.url) lead(page.url());
    else if (opensMore(outcome) && task.state.steps.length < stepsMax) {
      const steps = [...task.state.steps, task.name];
      const where = `${task.state.where} > ${task.name}`;
      // What a dialog was opened on is there again when it closes.
      const before = new Set([...(task.state.before ?? []), ...outcome.before]);
      note({ url: task.state.url, steps, where, before }, outcome.after);
    }
  }
  return { pressed, dead, gone };
}

const stepsMax = 3;

/** A page, and the elements that were pressed on it one after the other. */
interface State {
  readonly url: string;
  readonly steps: readonly string[];
  readonly where: string;
  /** Names of the elements that were there before each step. */
  readonly before?: ReadonlySet<string>;
}

interface Task {
  readonly state: State;
  readonly element: string;
  readonly name: string;
}

/** `later`: it may change something; `last`: it ends the session. */
type Turn = 'first' | 'later' | 'last';

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

interface Collected {
  readonly elements: readonly Found[];
  /** Where all links lead, also those of further rows. */
  readonly hrefs: readonly string[];
}

interface Outcome {
  readonly effects: readonly Effect[];
  readonly problem?: string;
  /** What can be pressed afterwards, and the names of what could be before. */
  readonly after: Collected;
  readonly before: ReadonlySet<string>;
}

/** What was copied says so for a moment; that is no other element. */
function opensMore({ effects }: Outcome): boolean {
  return effects.some((effect) => effect !== 'clipboard');
}

const acts: readonly Effect[] = ['address', 'request', 'dialog', 'focus'];

function isDead(
  element: string,
  effects: readonly Effect[],
  exceptions: readonly Exception[],
): boolean {
  if (effects.some((effect) => acts.includes(effect))) return false;
  const exception = exceptions.find((each) => each.element.test(element));
  if (exception === undefined) return true;
  return exception.changes !== 'nothing' && !effects.includes(exception.changes);
}

function isPage(path: string, { isWithin = () => true }: CrawlOptions): boolean {
  return path.startsWith('/console/') && !path.startsWith('/console/login') && isWithin(path);
}

/** Returns the kind of a page: its path without ids, and the parameters that choose a view. */
function whereOf(url: string): string {
  const { pathname, searchParams } = new URL(url);
  const path = pathname.replace(/\/$/, '');
  const segments = path.split('/');
  const kind = pagePaths.find((each) => {
    const parts = each.split('/');
    return (
      parts.length === segments.length &&
      parts.every((part, index) => part.startsWith(':') || part === segments[index])
    );
  });
  const chosen = views.flatMap((name) => {
    const value = searchParams.get(name);
    return value === null ? [] : [`${name}=${value}`];
  });
  return [kind ?? path, ...chosen].join(' ');
}

/** Returns what is opened once: a page with an id, or a list by the names of its filters. */
function keyOf(url: string): string {
  const { searchParams } = new URL(url);
  const where = whereOf(url);
  if (where.includes(':id')) return url;
  const filters = [...searchParams.keys()].filter((name) => !views.includes(name));
  return `${where} ${filters.toSorted().join()}`;
}

const views = ['tab', 'view', 'edit', 'live'];

function createWalker({ page, names = [], effectMs = 2_000 }: CrawlOptions): {
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

  const settled = (): Promise<unknown> =>
    waitFor('the content of the page', () => page.evaluate(settle).catch(() => undefined));
  const collect = async (): Promise<Collected> =>
    JSON.parse(await page.evaluate<string>(`${collectAll}(${JSON.stringify(names)})`)) as Collected;
  const find = async (name: string): Promise<Found | undefined> =>
    (await collect()).elements.find((each) => each.name === name);
  const click = async ({ index, isForKeys }: Found): Promise<string | undefined> => {
    const target = page.locator(`[data-crawl="${index}"]`);
    try {
      // What shows only once it has the focus is for the keyboard.
      if (isForKeys) await target.press('Enter', { timeout: effectMs });
      else await target.click({ timeout: effectMs });
      return undefined;
    } catch (error) {
      return `cannot be pressed: ${String(error).split('\n').slice(0, 8).join(' ')}`;
    }
  };
  const open = async ({ url, steps }: State): Promise<boolean> => {
    await page.goto(url);
    await settled();
    for (const step of steps) {
      const found = await find(step);
      if (found === undefined || (await click(found)) !== undefined) return false;
      await settled();
      await page.evaluate(fillTyped);
    }
    return true;
  };

  return {
    open,
    collect,
    press: async (task) => {
      if (!(await open(task.state))) return 'gone';
      const { elements: before } = await collect();
      const found = before.find(({ name }) => name === task.name);
      if (found === undefined) return 'gone';
      const was = { dialogs, documents };
      await page.evaluate(`crawl.mark(${found.index})`);
      const problem = await click(found);
      const known = new Set(before.map(({ name }) => name));
      if (problem !== undefined) return { effects: [], problem, after: nothing, before: known };
      const hasActed = (): boolean =>
        dialogs > was.dialogs || documents > was.documents || others.size > 0;
      // Another document ends the script.
      if (!hasActed()) await page.evaluate(`crawl.effect(${effectMs})`).catch(() => undefined);
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

const { signedIn, signedOut } = contentSelectors;
const content = JSON.stringify(`${signedIn}, ${signedOut}`);
/** Returns whether the content of the page was there, and nothing on its way any more, within a second. */
const settle = `crawl.until(1000, () => crawl.pending === 0 && document.querySelector(${content}) !== null)`;

/** What asks for the name of something before it is deleted gets it. */
const fillTyped = `for (const label of document.querySelectorAll('dialog[open] label')) {
  const [code, input] = [label.querySelector('code'), label.querySelector('input')];
  if (code === null || input === null || input.value !== '') continue;
  input.value = code.textContent;
  input.dispatchEvent(new InputEvent('input', { bubbles: true }));
}`;

/** Runs before the scripts of a page: sees requests that a person causes, and writes to the clipboard. */
const observe = `window.crawl = (() => {
  const crawl = { pending: 0, requests: 0, writes: 0, marked: false };
  const send = window.fetch;
  window.fetch = (input, init) => {
    const path = new URL(input, location.href).pathname;
    const isBackground = init?.headers?.['leat-background'] !== undefined || path.endsWith('/changes');
    if (isBackground) return send(input, init);
    crawl.requests += 1;
    crawl.pending += 1;
    const end = () => void (crawl.pending -= 1);
    const response = send(input, init);
    response.then(end, end);
    return response;
  };
  const write = navigator.clipboard?.writeText.bind(navigator.clipboard);
  if (write) navigator.clipboard.writeText = (text) => { crawl.writes += 1; return write(text); };
  const opened = () => [...document.querySelectorAll('dialog[open], :popover-open, details[open]')];
  // A form that grows by a row has more fields, which may have no text.
  const words = () => document.body.innerText.replace(/\\d+/g, '0') + ' ' +
    document.querySelectorAll('input, select, textarea, [aria-pressed=true]').length;
  const isChecked = (element) => element?.checked ?? element?.getAttribute('aria-pressed') ?? null;
  let was;
  crawl.mark = (index) => {
    crawl.marked = true;
    const pressed = document.querySelector('[data-crawl="' + index + '"]');
    was = {
      pressed, href: location.href, requests: crawl.requests, writes: crawl.writes, opened: opened(),
      active: document.activeElement, theme: document.documentElement.dataset.theme, words: words(),
      checked: isChecked(pressed),
    };
  };
  crawl.effects = () => {
    const found = [];
    if (location.href !== was.href) found.push('address');
    if (crawl.requests > was.requests) found.push('request');
    const now = opened();
    if (now.length !== was.opened.length || now.some((each) => !was.opened.includes(each))) found.push('dialog');
    // A press alone gives the focus to the element, or to what is around it.
    const { activeElement } = document;
    if (activeElement !== document.body && activeElement !== was.active &&
        activeElement?.contains(was.pressed) !== true) found.push('focus');
    return found;
  };
  crawl.until = (ms, isTrue) => new Promise((resolve) => {
    const began = performance.now();
    const check = () => {
      if (isTrue()) resolve(true);
      else if (performance.now() - began > ms) resolve(false);
      else setTimeout(check, 5);
    };
    check();
  });
  crawl.effect = (ms) => crawl.until(ms, () => crawl.effects().length > 0);
  crawl.allEffects = () => {
    const found = crawl.effects();
    if (crawl.writes > was.writes) found.push('clipboard');
    if (document.documentElement.dataset.theme !== was.theme) found.push('theme');
    if (words() !== was.words) found.push('text');
    if (isChecked(was.pressed) !== was.checked) found.push('checked');
    return found;
  };
  return crawl;
})();`;

/** Returns the elements that can be pressed now, as JSON, and numbers them. */
const collectAll = `((names) => {
  const selector = 'button, a[href], summary, input[type=checkbox], input[type=radio], ' +
    '[role=button], [role=link], [role=menuitem], [role=tab], [role=checkbox]';
  const plain = (text) => {
    let name = text.replace(/\\s+/g, ' ').trim();
    for (const each of names) name = name.replaceAll(each, '…');
    return name
      .replace(/\\b[a-z]{3,4}_[\\w-]+…?[\\w-]*|(?=[\\w|-]*\\d)[\\w|-]{16,}/g, '…')
      .replace(/\\d[\\d\\s.,:]*/g, '0 ').trim().slice(0, 80);
  };
  const kindOf = (href) => {
    const url = new URL(href, location.href);
    if (url.hash !== '') return url.hash;
    if (url.origin !== location.origin) return url.origin;
    const path = url.pathname.replace(/(\\/console\\/[a-z]+)\\/.+/, '$1/:id');
    return path + ['tab', 'view', 'edit', 'live', 'sort', 'status', 'since', 'period']
      .filter((name) => url.searchParams.has(name))
      .map((name) => ' ' + name + '=' + url.searchParams.get(name)).join('');
  };
  // Also behind a dialog, where those of the page were numbered before.
  for (const element of document.querySelectorAll('[data-crawl]')) element.removeAttribute('data-crawl');
  const modal = [...document.querySelectorAll('dialog[open]')].at(-1);
  const elements = [];
  const hrefs = [];
  let index = 0;
  for (const element of (modal ?? document).querySelectorAll(selector)) {
    if (element.disabled || element.getAttribute('aria-disabled') === 'true') continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const field = element.matches('input') ? element.closest('label') : null;
    const role = element.getAttribute('role') ??
      (element.matches('input') ? element.type : element.localName === 'a' ? 'link' : 'button');
    const row = element.closest('tbody tr, main li, article');
    const copied = element.cloneNode(true);
    for (const hidden of copied.querySelectorAll('.visually-hidden')) hidden.remove();
    const own = element.getAttribute('aria-label') ?? (field ?? copied).textContent ?? '';
    const text = own.trim() || element.getAttribute('title') ||
      element.querySelector('[alt]')?.alt || '';
    const href = element.localName === 'a' ? element.href : '';
    if (href !== '') hrefs.push(href);
    // A link to the page that is open.
    if (href === location.href) continue;
    const column = row?.localName === 'tr' ? element.closest('td, th')?.cellIndex : '';
    const name = row !== null && href !== ''
      ? 'row ' + column + ' link to ' + kindOf(href)
      : (row !== null ? 'row ' + column + ' ' : '') + role + ' ' +
        (row !== null && role === 'checkbox' ? '' : plain(text)) +
        (href === '' ? '' : ' to ' + kindOf(href));
    if (elements.some((each) => each.name === name)) continue;
    element.setAttribute('data-crawl', index);
    const isFrame = modal === undefined &&
      element.closest('header.top, nav.side, nav.bottom, .skip') !== null;
    const isRisky = element.matches('[type=submit], .danger') ||
      (modal !== undefined && element.closest('footer') !== null && !/^(Cancel|Close)/.test(text));
    const turn = text === 'Sign out' ? 'last' : isRisky ? 'later' : 'first';
    elements.push({ index, name, turn, href, isFrame, isForKeys: element.matches('.skip') });
    index += 1;
  }
  return JSON.stringify({ elements, hrefs });
})`;
