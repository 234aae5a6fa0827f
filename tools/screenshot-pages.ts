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

export const pages: readonly ScreenPage[] = [
  { name: 'overview', path: '/' },
  { name: 'overview-viewer', path: '/', role: 'viewer', widths: [1440] },
  { name: 'overview-empty', path: '/', content: 'empty' },
  { name: 'streams', path: '/streams' },
  { name: 'streams-empty', path: '/streams', content: 'empty', widths: [390, 1440] },
  { name: 'stream-ok', path: ({ streams }) => `/streams/${streams.billing}` },
  { name: 'stream-failing', path: ({ streams }) => `/streams/${streams['crm-contacts']}` },
  { name: 'stream-lagging', path: ({ streams }) => `/streams/${streams['search-index']}` },
  { name: 'stream-paused', path: ({ streams }) => `/streams/${streams['email-campaigns']}` },
  { name: 'stream-disabled', path: ({ streams }) => `/streams/${streams['partner-feed-acme']}` },
  { name: 'stream-by-hand', path: ({ streams }) => `/streams/${streams['legacy-erp']}` },
  {
    name: 'stream-retrying',
    path: ({ streams }) => `/streams/${streams['shipping-notifications']}`,
  },
  { name: 'stream-ordered', path: ({ streams }) => `/streams/${streams['inventory-sync']}` },
  { name: 'stream-replay', path: ({ streams }) => `/streams/${streams['analytics-replica']}` },
  { name: 'stream-inspector', path: ({ streams }) => `/streams/${streams['inspector-flaky']}` },
  { name: 'stream-long-name', path: ({ streams }) => `/streams/${streams['long-name']}` },
  { name: 'failures', path: '/failures' },
  {
    name: 'failures-group',
    path: ({ streams }) => `/failures?stream=${streams['crm-contacts']}&code=http_503`,
  },
  { name: 'redeliveries', path: '/redeliveries' },
  { name: 'redelivery', path: ({ redeliveries }) => `/redeliveries/${redeliveries.running}` },
  { name: 'failures-empty', path: '/failures', content: 'empty', widths: [390, 1440] },
  { name: 'events', path: '/events' },
  { name: 'events-viewer', path: '/events', role: 'viewer', widths: [1440] },
  { name: 'event', path: ({ events }) => `/events/${events.order}` },
  { name: 'event-failed', path: ({ events }) => `/events/${events.largestGroup}` },
  { name: 'event-blocked', path: ({ events }) => `/events/${events.blocked}` },
  { name: 'event-retrying', path: ({ events }) => `/events/${events.retrying}` },
  { name: 'event-skipped', path: ({ events }) => `/events/${events.skipped}` },
  { name: 'publish', path: '/publish' },
  { name: 'logs', path: '/logs' },
  {
    name: 'log',
    path: '/logs?types=sapi',
    prepare: async (page) => {
      await page.getByRole('link', { name: 'Assign a role to users' }).click();
      await page.getByRole('region', { name: 'entry as JSON' }).waitFor();
    },
  },
  { name: 'access', path: '/access' },
  { name: 'access-viewer', path: '/access', role: 'viewer', widths: [1440] },
  { name: 'access-apis', path: '/access?tab=apis' },
  { name: 'access-grants', path: '/access?tab=grants' },
  { name: 'access-roles', path: '/access?tab=roles' },
  {
    name: 'access-client',
    path: ({ clients }) => `/access?tab=clients&q=${clients['Checkout'] ?? ''}`,
  },
  { name: 'access-api', path: ({ apis }) => `/access?q=${apis['orders'] ?? ''}` },
  { name: 'access-role', path: ({ roles }) => `/access?q=${roles['Support'] ?? ''}` },
  { name: 'users', path: '/users' },
  {
    name: 'user',
    path: ({ users }) => `/users/${encodeURIComponent(users['ada@example.com'] ?? '')}`,
  },
  { name: 'nodes', path: '/nodes' },
  { name: 'settings', path: '/settings' },
  { name: 'not-found', path: '/no-such-page', widths: [390, 1440] },
  { name: 'signed-out', path: '/', role: 'signed out' },
];
