import { startBrowser } from '../test/helpers/browser.ts';
import { oneTimeLink } from '../test/helpers/console-page.ts';
import { storeEnvironment } from '../test/helpers/leat.ts';
import type { Bench, Figure } from './bench.ts';
import { type ConsoleIds, consoleIds, consoleOf, fillConsole } from './console-store.ts';
import { measurePage, type PageTimes, signIn } from './console-tab.ts';
import { withHealth } from './health-store.ts';
import { sqlite } from './leat.ts';
import { figure } from './report.ts';
import { inTurn, median } from './rounds.ts';

const firstViewMsMax = 1000;
const feedbackMsMax = 100;
/** One of a hundred events matches. */
const payloadFilter = encodeURIComponent('{"data.object.order_id":{"$endsWith":"00"}}');

/** Returns the addresses of the pages below `/console`, by name. */
function pagesOf({ stream, event, redelivery, dismissal, entry, user }: ConsoleIds) {
  return {
    overview: '/',
    'first delivery': '/first',
    streams: '/streams',
    stream: `/streams/${stream}`,
    'stream: attempts': `/streams/${stream}?tab=attempts`,
    'stream: settings': `/streams/${stream}?tab=settings`,
    'stream: form': `/streams/${stream}?tab=settings&edit=yes`,
    'stream: secrets': `/streams/${stream}?tab=secrets`,
    'stream: replays': `/streams/${stream}?tab=replays`,
    'stream: history': `/streams/${stream}?tab=history`,
    failures: '/failures',
    'failures: list': '/failures?view=list',
    'failures: group': `/failures?stream=${stream}&code=http_503`,
    redeliveries: '/redeliveries',
    redelivery: `/redeliveries/${redelivery}`,
    dismissal: `/dismissals/${dismissal}`,
    events: '/events',
    'events: type': '/events?types=bench.t7',
    'events: payload': `/events?filter=${payloadFilter}`,
    event: `/events/${event}`,
    publish: '/publish',
    'audit log': '/logs',
    'audit log: entry': `/logs/${entry}`,
    access: '/access',
    users: '/users',
    user: `/users/${encodeURIComponent(user)}`,
    nodes: '/nodes',
    settings: '/settings',
  };
}

/** The time until a person sees something, in Chromium on this machine. */
export const consolePages: Bench = {
  name: 'console',
  what: `${consoleOf.streams.toLocaleString('en')} streams, a million events and ${consoleOf.failures.toLocaleString('en')} open failures on SQLite: the first view of each page of the console, and the feedback after a press, measured in Chromium`,
  run: (progress, { events = consoleOf.events, rounds, cases }) => {
    let ids: ConsoleIds;
    return withHealth(
      sqlite,
      { events, progress },
      async (leat, tempStore) => {
        const { browser, close } = await startBrowser();
        const env = { ...storeEnvironment(tempStore), LEAT_PORT: String(leat.port) };
        const signedIn = await signIn(browser, await oneTimeLink('operator', env, tempStore));
        const pages = Object.entries(pagesOf(ids)).filter(([name]) => name.includes(cases));
        const figures = await inTurn(pages, async ([name, path]) => {
          progress(name);
          const url = `http://localhost:${leat.port}/console${path}`;
          const times: PageTimes[] = [];
          while (times.length < rounds) times.push(await measurePage(browser, signedIn, url));
          return figuresOf(name, times);
        });
        await close();
        return figures;
      },
      async (tempStore) => {
        await fillConsole(tempStore, events, progress);
        ids = consoleIds(tempStore);
      },
    );
  },
};

/** The limit of feedback is that of the slowest press. */
function figuresOf(name: string, times: readonly PageTimes[]): Figure[] {
  const warm = median(times.map((time) => time.warm)).toFixed(0);
  const cold = times.map((time) => time.cold);
  const detail = `with an empty cache; ${warm} with a warm one`;
  const view = figure(`${name}: first view`, 'ms', cold, { detail, most: firstViewMsMax });
  const [first] = times;
  const ofPresses = [...(first?.feedback.keys() ?? [])].map((press) => {
    const values = times.map(({ feedback }) => feedback.get(press) ?? NaN);
    return { press, values, median: median(values) };
  });
  const [slowest] = ofPresses.toSorted((a, b) => b.median - a.median);
  if (slowest === undefined) return [view];
  const all = ofPresses.map(({ press, median: ms }) => `${press} ${ms.toFixed(0)}`).join(', ');
  const about = { detail: all, most: feedbackMsMax };
  return [view, figure(`${name}: feedback`, 'ms', slowest.values, about)];
}
