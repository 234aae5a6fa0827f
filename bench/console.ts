import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { startBrowser } from '../test/helpers/browser.ts';
import { oneTimeLink } from '../test/helpers/console-page.ts';
import { storeEnvironment } from '../test/helpers/leat.ts';
import type { Bench, Figure } from './bench.ts';
import { type MeasuredPage, measuredPages } from './console-pages.ts';
import { type ConsoleIds, consoleIds, consoleOf, fillConsoleStore } from './console-store.ts';
import { openTab, signIn, type Tab } from './console-tab.ts';
import { createTempStore, type Running, startLeat, type TempStore } from './leat.ts';
import { wait } from './proc.ts';
import { median } from './rounds.ts';

const firstViewMsMax = 1000;
const feedbackMsMax = 100;
/** Until a node that has just started owns its streams and has read what it needs of them. */
const startSeconds = 15;
const domain = 'localhost';

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
      const ids = consoleIds(tempStore);
      // Attempts at the silent receiver stay under way, so that states stay as they are.
      const settings = { LEAT_ATTEMPT_TIMEOUT_MS: '600000', LEAT_CONCURRENCY: '64' };
      progress('starting');
      leat = await startLeat(tempStore, settings);
      await wait(startSeconds);
      const wanted = measuredPages.filter(({ name }) => name.includes(cases));
      return await measureAll({ leat, tempStore, ids }, wanted, { rounds, progress });
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
  readonly ids: ConsoleIds;
}

async function measureAll(
  { leat, tempStore, ids }: Service,
  wanted: readonly MeasuredPage[],
  { rounds, progress }: { readonly rounds: number; readonly progress: (text: string) => void },
): Promise<Figure[]> {
  const origin = `http://${domain}:${leat.port}/console`;
  const { browser, close } = await startBrowser();
  try {
    const env = { ...storeEnvironment(tempStore), LEAT_PORT: String(leat.port) };
    const storageState = await signIn(browser, await oneTimeLink('operator', env, tempStore));
    const figures: Figure[] = [];
    for (const page of wanted) {
      progress(page.name);
      const path = typeof page.path === 'string' ? page.path : page.path(ids);
      const times: PageTimes[] = [];
      for (let round = 0; round < rounds; round += 1) {
        const tab = await openTab(browser, { storageState, url: origin + path }, page);
        times.push(await measure(tab, page));
        await tab.close();
      }
      figures.push(...figuresOf(page, times));
    }
    return figures;
  } finally {
    await close();
  }
}

/** Times of one round, in milliseconds. */
interface PageTimes {
  /** With an empty cache. */
  readonly cold: number;
  readonly warm: number;
  /** In the order of the presses of the page. */
  readonly feedback: readonly number[];
}

async function measure(tab: Tab, { presses }: MeasuredPage): Promise<PageTimes> {
  const cold = await tab.view();
  let warm = await tab.view();
  const feedback: number[] = [];
  for (const press of presses) {
    feedback.push(await tab.press(press));
    // The next press begins with the page as it was.
    warm = await tab.view();
  }
  return { cold, warm, feedback };
}

/** The limit of feedback is that of the slowest press. */
function figuresOf({ name, presses }: MeasuredPage, times: readonly PageTimes[]): Figure[] {
  const warm = median(times.map((time) => time.warm));
  const view = figure(
    `${name}: first view`,
    `with an empty cache; ${warm.toFixed(0)} with a warm one`,
    times.map((time) => time.cold),
    firstViewMsMax,
  );
  const ofPresses = presses.map((press, index) => {
    const values = times.map(({ feedback }) => feedback[index] ?? NaN);
    return { name: press.name, values, median: median(values) };
  });
  const [slowest] = ofPresses.toSorted((a, b) => b.median - a.median);
  if (slowest === undefined) return [view];
  const detail = ofPresses.map((press) => `${press.name} ${press.median.toFixed(0)}`).join(', ');
  return [view, figure(`${name}: feedback`, detail, slowest.values, feedbackMsMax)];
}

function figure(name: string, detail: string, values: readonly number[], most: number): Figure {
  return { name, detail, values, unit: 'ms', must: { kind: 'most', value: most }, goal: undefined };
}
