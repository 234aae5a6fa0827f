import type { Page } from 'playwright-core';
import type { ConsoleData } from '../test/helpers/console-data.ts';
import type { OpenOptions } from '../test/helpers/console-page.ts';

/** A page of the console that screenshots are taken of. */
export interface ScreenPage {
  /** Begins the names of its files, and is what a filter is compared with. */
  readonly name: string;
  /** Below `/console`. */
  readonly path: string | ((data: ConsoleData) => string);
  readonly role?: OpenOptions['role'];
  /** The installation: one with a past of weeks unless given. */
  readonly content?: 'empty';
  /** Only with these instead of all. */
  readonly themes?: readonly Theme[];
  readonly widths?: readonly number[];
  /** Opens a dialog or a menu; runs when the content of the page is there. */
  readonly prepare?: (page: Page) => Promise<void>;
}

export type Theme = 'light' | 'dark';

export const themes: readonly Theme[] = ['light', 'dark'];
/** A phone, a tablet, and a screen; with the height of each. */
export const sizes = [
  { width: 390, height: 844 },
  { width: 768, height: 1024 },
  { width: 1440, height: 900 },
] as const;

/** Where only the layout of a phone and of a screen differ. */
const phoneAndScreen = [390, 1440];

/** Presses a button and waits for its dialog; `counted` is a text that comes later. */
const dialog =
  (button: string | RegExp, counted?: RegExp) =>
  async (page: Page): Promise<void> => {
    await page.getByRole('button', { name: button }).first().click();
    const opened = page.getByRole('dialog');
    await opened.waitFor();
    if (counted !== undefined) await opened.getByText(counted).first().waitFor();
  };

/** The session ends while a page is open; the next pages of the tab have theirs again. */
async function endSession(page: Page): Promise<void> {
  const cookies = await page.context().cookies();
  await page.context().clearCookies();
  await page.getByRole('link', { name: 'Failures' }).first().click();
  await page.getByText('Your session has ended.').waitFor();
  await page.context().addCookies(cookies);
}

async function withoutService(page: Page): Promise<void> {
  await page.route('**/console/session', (route) => route.abort());
  await page.reload();
  await page.getByRole('heading', { name: 'Leat is out of reach' }).waitFor();
  await page.unroute('**/console/session');
}

async function showSecret(page: Page): Promise<void> {
  await dialog('Show secret')(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Show secret' }).click();
  await page.getByText(/^whsec_/).waitFor();
}

const ofFrame: readonly ScreenPage[] = [
  {
    name: 'frame-menu',
    path: '/streams',
    prepare: (page) => page.locator('[popovertarget=user-menu]').click(),
    widths: phoneAndScreen,
  },
  {
    name: 'frame-more',
    path: '/streams',
    prepare: (page) => page.getByRole('button', { name: 'More' }).click(),
    widths: [390],
  },
  { name: 'frame-not-found', path: '/no-such-page', widths: phoneAndScreen },
  { name: 'frame-out-of-reach', path: '/', prepare: withoutService, widths: phoneAndScreen },
  { name: 'frame-session-ended', path: '/', prepare: endSession, widths: phoneAndScreen },
  { name: 'frame-signed-out', path: '/', role: 'signed out' },
];

const failedEvent = ({ events }: ConsoleData): string => `/events/${events.largestGroup}`;

const ofEvents: readonly ScreenPage[] = [
  { name: 'event', path: ({ events }) => `/events/${events.order}` },
  { name: 'event-blocked', path: ({ events }) => `/events/${events.blocked}` },
  {
    name: 'event-dialog',
    path: failedEvent,
    prepare: dialog(/^Send again/),
    widths: phoneAndScreen,
  },
  { name: 'event-dismissed', path: ({ events }) => `/events/${events.dismissed}` },
  { name: 'event-failed', path: failedEvent },
  { name: 'event-retrying', path: ({ events }) => `/events/${events.retrying}` },
  { name: 'event-skipped', path: ({ events }) => `/events/${events.skipped}` },
  { name: 'event-unknown', path: '/events/evt_1111111111111111111111', widths: phoneAndScreen },
  {
    name: 'event-viewer',
    path: ({ events, streams }) =>
      `/events/${events.largestGroup}?stream=${streams['crm-contacts']}`,
    role: 'viewer',
    widths: phoneAndScreen,
  },
  { name: 'events', path: '/events' },
  { name: 'events-between', path: '/events?since=between' },
  { name: 'events-empty', path: '/events', content: 'empty', widths: phoneAndScreen },
  { name: 'events-live', path: '/events?live=1', widths: phoneAndScreen },
  { name: 'events-none', path: '/events?types=no.such_type', widths: phoneAndScreen },
  {
    name: 'events-payload',
    path: `/events?filter=${encodeURIComponent('{"data.object.plan":{"$in":["pro","team"]}}')}`,
  },
  { name: 'events-viewer', path: '/events', role: 'viewer', widths: [1440] },
];

const failedGroup = ({ streams }: ConsoleData): string =>
  `/failures?stream=${streams['crm-contacts']}&code=http_503`;

const ofFailures: readonly ScreenPage[] = [
  { name: 'dismissal', path: ({ dismissal }) => `/dismissals/${dismissal}` },
  { name: 'failures', path: '/failures' },
  {
    name: 'failures-dialog-all',
    path: '/failures',
    prepare: dialog('Redeliver all', /open failures/),
    widths: phoneAndScreen,
  },
  {
    name: 'failures-dialog-dismiss',
    path: failedGroup,
    prepare: dialog('Dismiss', /open failures/),
    widths: phoneAndScreen,
  },
  {
    name: 'failures-dialog-redeliver',
    path: failedGroup,
    prepare: dialog('Redeliver', /open failures/),
    widths: phoneAndScreen,
  },
  { name: 'failures-empty', path: '/failures', content: 'empty', widths: phoneAndScreen },
  { name: 'failures-group', path: failedGroup },
  { name: 'failures-list', path: '/failures?view=list' },
  { name: 'failures-none', path: '/failures?types=no.such_type', widths: phoneAndScreen },
  { name: 'failures-retrying', path: '/failures?status=retrying', widths: phoneAndScreen },
  {
    name: 'failures-selected',
    path: ({ streams }) => `/failures?stream=${streams['label-printer']}`,
    prepare: (page) => page.getByRole('checkbox', { name: 'Select this page' }).check(),
    widths: phoneAndScreen,
  },
  { name: 'failures-viewer', path: failedGroup, role: 'viewer', widths: [1440] },
  { name: 'redeliveries', path: '/redeliveries' },
  { name: 'redeliveries-empty', path: '/redeliveries', content: 'empty', widths: phoneAndScreen },
  { name: 'redelivery', path: ({ redeliveries }) => `/redeliveries/${redeliveries.running}` },
  {
    name: 'redelivery-dialog',
    path: ({ redeliveries }) => `/redeliveries/${redeliveries.running}`,
    prepare: dialog(/^Cancel the remaining/),
    widths: phoneAndScreen,
  },
  {
    name: 'redelivery-finished',
    path: ({ redeliveries }) => `/redeliveries/${redeliveries.finished}`,
  },
];

const ofOperation: readonly ScreenPage[] = [
  { name: 'access', path: '/access' },
  { name: 'access-api', path: ({ apis }) => `/access?q=${apis['orders'] ?? ''}` },
  { name: 'access-apis', path: '/access?tab=apis' },
  {
    name: 'access-client',
    path: ({ clients }) => `/access?tab=clients&q=${clients['Checkout'] ?? ''}`,
  },
  { name: 'access-grants', path: '/access?tab=grants' },
  { name: 'access-role', path: ({ roles }) => `/access?q=${roles['Support'] ?? ''}` },
  { name: 'access-roles', path: '/access?tab=roles' },
  { name: 'access-viewer', path: '/access', role: 'viewer', widths: [1440] },
  {
    name: 'log',
    path: '/logs?types=sapi',
    prepare: async (page) => {
      await page.getByRole('link', { name: 'Assign a role to users' }).click();
      await page.getByRole('region', { name: 'entry as JSON' }).waitFor();
    },
  },
  { name: 'log-unknown', path: '/logs/log_1111111111111111111111', widths: phoneAndScreen },
  { name: 'logs', path: '/logs' },
  { name: 'logs-between', path: '/logs?since=between', widths: phoneAndScreen },
  { name: 'logs-none', path: '/logs?target=nothing', widths: phoneAndScreen },
  { name: 'nodes', path: '/nodes' },
  { name: 'words', path: '/words', content: 'empty' },
  { name: 'settings', path: '/settings' },
  { name: 'settings-dialog', path: '/settings', prepare: dialog('Send'), widths: phoneAndScreen },
  {
    name: 'user',
    path: ({ users }) => `/users/${encodeURIComponent(users['ada@example.com'] ?? '')}`,
  },
  { name: 'users', path: '/users' },
  { name: 'users-empty', path: '/users', content: 'empty', widths: phoneAndScreen },
  { name: 'users-none', path: '/users?q=nobody@example.com', widths: phoneAndScreen },
];

const ofOverview: readonly ScreenPage[] = [
  { name: 'first', path: '/first', content: 'empty', widths: phoneAndScreen },
  { name: 'first-done', path: ({ streams }) => `/first?stream=${streams['inspector-flaky']}` },
  { name: 'first-viewer', path: '/first', role: 'viewer', widths: [1440] },
  { name: 'overview', path: '/' },
  { name: 'overview-empty', path: '/', content: 'empty' },
  {
    name: 'overview-table',
    path: '/?window=week',
    prepare: (page) => page.getByRole('button', { name: 'Table' }).first().click(),
    widths: phoneAndScreen,
  },
  { name: 'overview-viewer', path: '/', role: 'viewer', widths: [1440] },
];

const ofPublish: readonly ScreenPage[] = [
  { name: 'publish', path: '/publish' },
  { name: 'publish-empty', path: '/publish', content: 'empty', widths: phoneAndScreen },
  {
    name: 'publish-invalid',
    path: '/publish',
    prepare: (page) => page.getByRole('textbox', { name: 'Data' }).fill('{"object": '),
    widths: phoneAndScreen,
  },
  {
    name: 'publish-sent',
    path: '/publish',
    prepare: async (page) => {
      await page.getByRole('button', { name: 'Publish' }).click();
      await page.getByRole('link', { name: 'What became of it' }).waitFor();
    },
    widths: phoneAndScreen,
  },
];

type StreamName = keyof ConsoleData['streams'];

const stream =
  (name: StreamName, tab?: string) =>
  ({ streams }: ConsoleData): string =>
    `/streams/${streams[name]}${tab === undefined ? '' : `?tab=${tab}`}`;

/** A dialog on the page of a stream. */
const streamDialog = (
  name: string,
  path: ScreenPage['path'],
  button: string | RegExp,
): ScreenPage => ({
  name: `stream-dialog-${name}`,
  path,
  prepare: dialog(button),
  widths: phoneAndScreen,
});

const ofStream: readonly ScreenPage[] = [
  { name: 'stream-attempts', path: stream('crm-contacts', 'attempts') },
  { name: 'stream-by-hand', path: stream('legacy-erp') },
  streamDialog('delete', stream('billing', 'settings'), 'Delete this stream'),
  streamDialog('disable', stream('shipping-notifications'), 'Disable'),
  streamDialog('enable', stream('partner-feed-acme'), 'Enable'),
  streamDialog('pause', stream('billing'), 'Pause'),
  streamDialog('replay', stream('billing', 'replays'), 'Start a replay'),
  streamDialog('resume', stream('email-campaigns'), 'Resume'),
  streamDialog('retry-now', stream('shipping-notifications'), 'Retry now'),
  streamDialog('rotate', stream('billing', 'secrets'), 'Rotate secret'),
  streamDialog('secret', stream('billing', 'secrets'), 'Show secret'),
  streamDialog('test', stream('billing'), 'Test'),
  { name: 'stream-disabled', path: stream('partner-feed-acme') },
  { name: 'stream-failing', path: stream('crm-contacts') },
  { name: 'stream-form', path: stream('data-lake', 'settings&edit=yes') },
  {
    name: 'stream-form-invalid',
    path: stream('billing', 'settings&edit=yes'),
    prepare: async (page) => {
      await page.getByLabel('Attempts per second').fill('many');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('Not saved: correct what is marked.').waitFor();
    },
  },
  { name: 'stream-history', path: stream('billing', 'history') },
  { name: 'stream-inspector', path: stream('inspector-flaky') },
  { name: 'stream-lagging', path: stream('search-index') },
  { name: 'stream-long-name', path: stream('long-name') },
  { name: 'stream-ok', path: stream('billing') },
  { name: 'stream-ordered', path: stream('inventory-sync') },
  { name: 'stream-paused', path: stream('email-campaigns') },
  { name: 'stream-received', path: stream('inspector-flaky', 'received') },
  { name: 'stream-replay', path: stream('analytics-replica') },
  { name: 'stream-replays', path: stream('analytics-replica', 'replays') },
  { name: 'stream-replays-skipped', path: stream('returns-desk', 'replays') },
  { name: 'stream-retrying', path: stream('shipping-notifications') },
  {
    name: 'stream-secret-shown',
    path: stream('billing', 'secrets'),
    prepare: showSecret,
    widths: phoneAndScreen,
  },
  { name: 'stream-secrets', path: stream('billing', 'secrets') },
  { name: 'stream-settings', path: stream('data-lake', 'settings') },
  {
    name: 'stream-unknown',
    path: '/streams/est_1111111111111111111111',
    widths: phoneAndScreen,
  },
  { name: 'stream-viewer', path: stream('crm-contacts'), role: 'viewer', widths: [1440] },
  { name: 'streams', path: '/streams' },
  { name: 'streams-empty', path: '/streams', content: 'empty', widths: phoneAndScreen },
  { name: 'streams-none', path: '/streams?q=nothing', widths: phoneAndScreen },
  { name: 'streams-viewer', path: '/streams', role: 'viewer', widths: [1440] },
];

/** All of them, by page. */
export const pages: readonly ScreenPage[] = [
  ...ofFrame,
  ...ofOverview,
  ...ofStream,
  ...ofFailures,
  ...ofEvents,
  ...ofPublish,
  ...ofOperation,
].toSorted((one, other) => (one.name < other.name ? -1 : 1));
