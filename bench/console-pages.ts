import type { ConsoleIds } from './console-store.ts';

/** A page of the console, and what is pressed on it. */
export interface MeasuredPage {
  readonly name: string;
  /** Below `/console`. */
  readonly path: string | ((ids: ConsoleIds) => string);
  /** Its heading: another page must not be measured in its place. */
  readonly heading: string;
  /** A CSS selector of its main content. */
  readonly content: string;
  readonly presses: readonly Press[];
}

/** Something that is pressed, and where that must show. Presses change nothing that others measure. */
export interface Press {
  /** What it leads to. */
  readonly name: string;
  /** What is pressed, as a selector of Playwright. */
  readonly on: string;
  /** A key that is pressed there instead of the mouse. */
  readonly key?: string;
  /** A CSS selector: feedback is the first change that is seen within. */
  readonly part: string;
}

const dialog = 'dialog[open]';
const heading = '#page h1';
const rows = '#page .table-frame, #page .skeleton';
/** Below the head and the tabs. */
const tabContent = '#page > :not(.page-head, nav)';

const next: Press = { name: 'next page', on: '#page a[rel=next]', part: rows };
const leading = (name: string, href: string): Press => ({
  name,
  on: `#page tbody a[href*="${href}"]`,
  part: heading,
});
const opening = (name: string, button: string): Press => ({
  name,
  on: `#page button:has-text("${button}")`,
  part: dialog,
});
/** Chooses the first entry of a list that begins with a letter. */
const choosing = (label: string, key: string): Press => ({
  name: 'filter',
  on: `#page label:has-text("${label}") select`,
  key,
  part: rows,
});

const stream =
  (tab?: string) =>
  ({ stream: id }: ConsoleIds): string =>
    `/streams/${id}${tab === undefined ? '' : `?tab=${tab}`}`;

const ofOverview: readonly MeasuredPage[] = [
  {
    name: 'overview',
    path: '/',
    heading: 'Overview',
    content: '#page .uplot',
    presses: [
      { name: 'streams', on: 'nav.side a[href$="/streams"]', part: heading },
      { name: 'window', on: '#page a[href*="window=week"]', part: '#page .sums, #page .chart' },
    ],
  },
  {
    name: 'first delivery',
    path: '/first',
    heading: 'First delivery',
    content: '#page .panel button',
    presses: [],
  },
];

const ofStreams: readonly MeasuredPage[] = [
  {
    name: 'streams',
    path: '/streams',
    heading: 'Streams',
    content: '#page tbody',
    presses: [
      { name: 'filter', on: '#page a[href*="statuses=failing"]', part: rows },
      { name: 'sort', on: '#page th a[href*="sort=-open_failures"]', part: rows },
      next,
      opening('dialog', 'Pause'),
      leading('stream', '/streams/est_'),
    ],
  },
  {
    name: 'stream',
    path: stream(),
    heading: 'stream-0',
    content: '#page .uplot',
    presses: [
      { name: 'tab', on: '#page nav.tabs a[href$="tab=settings"]', part: tabContent },
      { name: 'window', on: '#page a[href*="window=week"]', part: '#page .sums, #page .chart' },
      opening('dialog', 'Pause'),
    ],
  },
  {
    name: 'stream: attempts',
    path: stream('attempts'),
    heading: 'stream-0',
    content: '#page tbody',
    presses: [next, leading('event', '/events/evt_')],
  },
  {
    name: 'stream: settings',
    path: stream('settings'),
    heading: 'stream-0',
    content: '#page .settings',
    presses: [
      { name: 'form', on: '#page a[href$="edit=yes"]', part: '#page form' },
      opening('dialog', 'Delete this stream'),
    ],
  },
  {
    name: 'stream: form',
    path: stream('settings&edit=yes'),
    heading: 'stream-0',
    content: '#page form .save-bar',
    presses: [{ name: 'letter', on: '#page form input >> nth=0', key: 'x', part: '.save-bar' }],
  },
  {
    name: 'stream: secrets',
    path: stream('secrets'),
    heading: 'stream-0',
    content: '#page tbody',
    presses: [opening('dialog', 'Show secret')],
  },
  {
    name: 'stream: replays',
    path: stream('replays'),
    heading: 'stream-0',
    content: '#page .panel .table-frame',
    presses: [opening('dialog', 'Start a replay')],
  },
  {
    name: 'stream: history',
    path: stream('history'),
    heading: 'stream-0',
    content: '#page tbody',
    presses: [next],
  },
];

const ofFailures: readonly MeasuredPage[] = [
  {
    name: 'failures',
    path: '/failures',
    heading: 'Failures',
    content: '#page tbody',
    presses: [
      choosing('Cause', 't'),
      { name: 'one by one', on: '#page a[href*="view=list"]', part: rows },
      next,
      opening('dialog', 'Redeliver all'),
      leading('group', '/failures?stream='),
    ],
  },
  {
    name: 'failures: list',
    path: '/failures?view=list',
    heading: 'Failures',
    content: '#page tbody',
    presses: [
      choosing('Cause', 't'),
      next,
      { name: 'choice', on: '#page .chosen input', part: '#page .chosen' },
      leading('event', '/events/evt_'),
    ],
  },
  {
    name: 'failures: group',
    path: ({ stream: id }) => `/failures?stream=${id}&code=http_503`,
    heading: 'HTTP 503 of stream-0',
    content: '#page tbody',
    presses: [next, opening('dialog', 'Redeliver')],
  },
  {
    name: 'redeliveries',
    path: '/redeliveries',
    heading: 'Redeliveries',
    content: '#page tbody',
    presses: [next, leading('redelivery', '/redeliveries/rdl_')],
  },
  {
    name: 'redelivery',
    path: ({ redelivery }) => `/redeliveries/${redelivery}`,
    heading: 'Redelivery',
    content: '#page .bar',
    presses: [],
  },
  {
    name: 'dismissal',
    path: ({ dismissal }) => `/dismissals/${dismissal}`,
    heading: 'Dismissal',
    content: '#page .bar',
    presses: [],
  },
];

/** One of a hundred events matches. */
const payloadFilter = encodeURIComponent('{"data.object.order_id":{"$endsWith":"00"}}');

const ofEvents: readonly MeasuredPage[] = [
  {
    name: 'events',
    path: '/events',
    heading: 'Events',
    content: '#page tbody',
    presses: [
      next,
      {
        name: 'payload',
        on: '#page button[aria-expanded]',
        part: '#page .event-search > .panel-body',
      },
      leading('event', '/events/evt_'),
    ],
  },
  {
    name: 'events: type',
    path: '/events?types=bench.t7',
    heading: 'Events',
    content: '#page tbody',
    presses: [{ name: 'filter', on: '#page button.chip', part: rows }, next],
  },
  {
    name: 'events: payload',
    path: `/events?filter=${payloadFilter}`,
    heading: 'Events',
    content: '#page tbody',
    presses: [next],
  },
  {
    name: 'event',
    path: ({ event }) => `/events/${event}`,
    heading: 'bench.t0',
    content: '#page .delivery-head',
    presses: [{ name: 'dialog', on: '#page .delivery-head button', part: dialog }],
  },
  {
    name: 'publish',
    path: '/publish',
    heading: 'Publish and test',
    content: '#page form',
    // No stream subscribes to this type.
    presses: [{ name: 'publish', on: '#page button:has-text("Publish")', part: '#page form' }],
  },
];

const ofLogs: readonly MeasuredPage[] = [
  {
    name: 'audit log',
    path: '/logs',
    heading: 'Audit log',
    content: '#page tbody',
    presses: [choosing('What', 'r'), next, leading('entry', '/logs/log_')],
  },
  {
    name: 'audit log: entry',
    path: ({ entry }) => `/logs/${entry}`,
    heading: 'Update an event stream',
    content: '#page .facts',
    presses: [{ name: 'audit log', on: '#page a.crumb', part: heading }],
  },
];

const ofOperation: readonly MeasuredPage[] = [
  {
    name: 'access',
    path: '/access',
    heading: 'Access',
    content: '#page tbody',
    presses: [
      { name: 'tab', on: '#page nav.tabs a[href$="tab=roles"]', part: tabContent },
      leading('client', '/access?'),
    ],
  },
  {
    name: 'users',
    path: '/users',
    heading: 'Users',
    content: '#page tbody',
    presses: [
      { name: 'sort', on: '#page label:has-text("Order") select', key: 'n', part: rows },
      next,
      leading('user', '/users/'),
    ],
  },
  {
    name: 'user',
    path: ({ user }) => `/users/${encodeURIComponent(user)}`,
    heading: 'user-1@example.com',
    content: '#page .panel',
    presses: [],
  },
  { name: 'nodes', path: '/nodes', heading: 'Nodes', content: '#page tbody', presses: [] },
  {
    name: 'settings',
    path: '/settings',
    heading: 'Settings',
    content: '#page tbody',
    presses: [opening('dialog', 'Send')],
  },
];

export const measuredPages: readonly MeasuredPage[] = [
  ...ofOverview,
  ...ofStreams,
  ...ofFailures,
  ...ofEvents,
  ...ofLogs,
  ...ofOperation,
];
