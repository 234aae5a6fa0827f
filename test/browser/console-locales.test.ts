import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import { crawl } from '../helpers/console-crawl.ts';
import { prepareCrawl } from '../helpers/console-crawl-script.ts';
import type { ConsoleData } from '../helpers/console-data.ts';
import type { Installation, OpenConsole } from '../helpers/console-page.ts';
import { filledInstallation, openConsole } from '../helpers/console.ts';
import { publish } from '../helpers/api-client.ts';
import { waitFor } from '../helpers/wait.ts';
import { assertAlive, exceptions } from './console-crawl-exceptions.ts';

/** How a browser differs from that of the other tests. */
interface Visitor {
  readonly name: string;
  readonly locale?: string;
  readonly timezoneId?: string;
  /** How far its clock is ahead. */
  readonly aheadMs?: number;
}

const hourMs = 3_600_000;
/** The language that Chromium has in a container. */
const posix: Visitor = { name: 'en-US@posix', locale: 'en-US@posix' };
const swiss: Visitor = { name: 'de-CH', locale: 'de-CH', timezoneId: 'Europe/Zurich' };
const egyptian: Visitor = { name: 'ar-EG', locale: 'ar-EG', timezoneId: 'Africa/Cairo' };
const japanese: Visitor = { name: 'ja-JP', locale: 'ja-JP', timezoneId: 'Asia/Tokyo' };
const visitors: readonly Visitor[] = [
  posix,
  swiss,
  egyptian,
  japanese,
  { name: 'a clock that is an hour fast', aheadMs: hourMs },
  { name: 'a clock that is an hour slow', aheadMs: -hourMs },
];

async function open(
  t: TestContext,
  installation: Installation,
  { locale = 'en-GB', timezoneId = 'UTC', aheadMs = 0 }: Visitor,
  role: 'operator' | 'viewer' = 'operator',
): Promise<OpenConsole> {
  const tab = await openConsole(t, { installation, role, context: { locale, timezoneId } });
  // Of the documents that are opened from now on.
  await tab.page.context().addInitScript({ content: shiftedClock(aheadMs) });
  return tab;
}

/** A script that gives a page another present. */
function shiftedClock(aheadMs: number): string {
  if (aheadMs === 0) return '';
  return `(() => {
    const Real = Date;
    const now = () => Real.now() + ${aheadMs};
    window.Date = class Date extends Real {
      static now() { return now(); }
      constructor(...given) { if (given.length === 0) super(now()); else super(...given); }
    };
  })();`;
}

/** Returns the number of charts of the page once each of them has lines. */
async function drawnCharts(page: Page): Promise<number> {
  await waitFor('the charts', () =>
    page.evaluate<boolean>(`Array.from(document.querySelectorAll('.chart')).every((chart) => {
      const canvas = chart.querySelector('canvas');
      if (canvas === null) return false;
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      return data.some((value) => value !== 0);
    })`),
  );
  return page.locator('.chart').count();
}

/** What no page says: a value that a format could not take, or digits of another script. */
const unreadable =
  /Invalid Date|\bNaN\b|\bundefined\b|\[object |RangeError|[\u0660-\u0669\u06F0-\u06F9\uFF10-\uFF19]/;

async function assertReadable(page: Page, path: string): Promise<void> {
  const text = await page.locator('body').innerText();
  assert.doesNotMatch(text, unreadable, path);
  assert.doesNotMatch(text, /could not be (?:loaded|read)/, path);
}

test('charts are drawn where Intl refuses the language of the browser', async (t) => {
  const { page, goto, errors } = await open(t, await filledInstallation(), posix);
  await goto('/');
  assert.equal(await page.evaluate('navigator.languages[0]'), posix.locale);
  assert.ok((await drawnCharts(page)) > 0);
  await assertReadable(page, '/');
  assert.deepEqual(errors(), []);
});

/** Pages with numbers, times or charts. */
const paths = ({ streams, users, events, redeliveries }: ConsoleData): readonly string[] => [
  '/',
  '/?window=week',
  '/streams',
  '/events',
  '/events?since=between',
  '/failures',
  '/failures?view=list',
  '/redeliveries',
  '/logs',
  '/access',
  '/users',
  '/nodes',
  '/settings',
  '/publish',
  `/streams/${streams['crm-contacts']}`,
  ...['attempts', 'history', 'settings', 'replays'].map(
    (tab) => `/streams/${streams['analytics-replica']}?tab=${tab}`,
  ),
  `/users/${encodeURIComponent(users['ada@example.com'] ?? '')}`,
  `/events/${events.order}`,
  `/redeliveries/${redeliveries.running}`,
];

describe('the console in other browsers', () => {
  for (const visitor of visitors) {
    test(
      `${visitor.name}: every page shows its numbers, times and charts`,
      { tags: ['long'] },
      async (t) => {
        const installation = await filledInstallation();
        const tab = await open(t, installation, visitor);
        const { page, goto, errors } = tab;
        let charts = 0;
        for (const path of paths(tab.data)) {
          await goto(path);
          charts += await drawnCharts(page);
          await assertReadable(page, path);
          assert.deepEqual(errors(), [], path);
        }
        assert.ok(charts >= 3, `${charts} charts`);
      },
    );

    test(`${visitor.name}: an event of now is one of now`, { tags: ['long'] }, async (t) => {
      const installation = await filledInstallation();
      const { page, goto } = await open(t, installation, visitor);
      const type = 'locale.seen';
      const id = await publish(installation.leat, type);
      await goto(`/events?types=${type}&since=hour`);
      await page.locator(`a[href*="${id}"]`).first().waitFor();
      await goto(`/events/${id}`);
      const times = await page.locator('main time').allInnerTexts();
      assert.ok(times.length > 0);
      for (const time of times) assert.match(time, /^(?:now|just now|[\d.]+\s*s ago)$/);
    });
  }

  // Two of them have a clock that is off as well: a crawl takes most of a minute.
  const crawled = [
    { ...posix, aheadMs: hourMs },
    { ...swiss, aheadMs: -hourMs },
    egyptian,
    japanese,
  ];
  for (const visitor of crawled) {
    test(
      `${visitor.name}: every element of a viewer does something`,
      { tags: ['long'] },
      async (t) => {
        const installation = await filledInstallation();
        const { page } = await open(t, installation, visitor, 'viewer');
        await prepareCrawl(page.context());
        const names = Object.keys(installation.data?.streams ?? {});
        const start = `${installation.origin}/console/`;
        assertAlive(await crawl({ page, start, exceptions, names }));
      },
    );
  }
});
