import { pagePaths } from '../../src/console/links.ts';
import {
  type Collected,
  createWalker,
  type Effect,
  type Outcome,
  type State,
  type Task,
  type Turn,
  type WalkerOptions,
} from './console-crawl-walker.ts';

/**
 * Uses every button, link, menu item, tab and checkbox of the console as a person with a mouse does, and
 * finds those without an effect.
 */

/** Elements that change neither address, request, dialog nor focus, and what they change instead. */
export interface Exception {
  /** Matches the end of {@link Pressed.element}. */
  readonly element: RegExp;
  readonly changes: 'text' | 'checked' | 'clipboard' | 'theme';
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

interface CrawlOptions extends WalkerOptions {
  /** Where it begins; it stays on this origin. */
  readonly start: string;
  readonly exceptions: readonly Exception[];
  /** Elements that are found but not pressed, as they were before. */
  readonly known?: ReadonlySet<string>;
  /** Whether a page is opened; by default all pages of the console are. */
  readonly isWithin?: (path: string) => boolean;
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
      else {
        const changes = exceptionOf(element, options.exceptions)?.changes ?? 'nothing';
        waiting[each.turn].push({ state, element, name: each.name, changes });
      }
    }
  };

  for (;;) {
    const state = states.shift();
    if (state !== undefined) {
      const isOpen = await walker.open(state).catch((error: unknown) => {
        dead.push(`${state.where}: ${String(error)}`);
        return false;
      });
      if (isOpen) note(state, await walker.collect());
      continue;
    }
    const task = waiting.first.shift() ?? waiting.later.shift() ?? waiting.last.shift();
    if (task === undefined) break;
    const isIdle = (tried: Outcome | 'gone'): boolean =>
      tried !== 'gone' && isDead(task.element, tried.effects, options.exceptions);
    const press = (): Promise<Outcome | 'gone'> =>
      walker.press(task).catch((error: unknown) => ({ ...nothingDone, problem: String(error) }));
    let outcome = await press();
    // A page that draws itself again meanwhile, or a machine that stands still, is no defect.
    if (isIdle(outcome)) {
      const again = await press();
      // One that had no effect and is gone then is not known to have one.
      if (again !== 'gone') outcome = again;
    }
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

const nothingDone: Outcome = {
  effects: [],
  after: { elements: [], hrefs: [] },
  before: new Set(),
};

/** What was copied says so for a moment; that is no other element. */
function opensMore({ effects }: Outcome): boolean {
  return effects.some((effect) => effect !== 'clipboard');
}

const acts: readonly Effect[] = ['address', 'request', 'dialog', 'focus'];

function exceptionOf(element: string, exceptions: readonly Exception[]): Exception | undefined {
  return exceptions.find((each) => each.element.test(element));
}

function isDead(
  element: string,
  effects: readonly Effect[],
  exceptions: readonly Exception[],
): boolean {
  if (effects.some((effect) => acts.includes(effect))) return false;
  const exception = exceptionOf(element, exceptions);
  return exception === undefined || !effects.includes(exception.changes);
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
  const filters = [...searchParams]
    .filter(([name]) => !views.includes(name))
    .map(([name, value]) => (value === 'between' ? `${name}=between` : name));
  return `${where} ${filters.toSorted().join()}`;
}

const views = ['tab', 'view', 'edit', 'live'];
