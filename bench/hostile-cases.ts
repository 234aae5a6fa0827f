/** A request to the management API. */
interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: string;
}

/** The requests that a hostile client repeats. */
export interface Case {
  readonly name: string;
  /** Concurrent connections. */
  readonly connections: number;
  /** Sent in turn. */
  readonly requests: readonly Request[];
  /** Pause of a connection between two requests. */
  readonly pauseMs: number;
  /** Responses are never read. */
  readonly silent?: boolean;
}

const MIB = 1024 * 1024;
const KIB = 1024;
const publishMax = 4 * MIB;

/** Two connections that send 1.4 MiB a second each, with bodies of this length. */
const slowly = (bytes: number): Pick<Case, 'connections' | 'pauseMs'> => ({
  connections: 2,
  pauseMs: (bytes / (1.4 * MIB)) * 1000,
});

export function hostileCases(): Case[] {
  const bodies: [name: string, path: string, body: string][] = [
    ['4 MiB of inexact numbers', '/events', event(items('1.0', publishMax - 100))],
    ['4 MiB of 1.0 and {}', '/events', event(`1.0,${items('{}', publishMax - 100)}`)],
    ['16 events of 1.0 and {}', '/events', sixteen('{}')],
    ['16 events of 1.0', '/events', sixteen('1.0')],
    ['4 MiB of []', '/events', `[${items('[]', publishMax - 10)}]`],
    ['4 MiB of {}', '/events', `[${items('{}', publishMax - 10)}]`],
    ['4 MiB of depth', '/events', '['.repeat(publishMax / 2) + ']'.repeat(publishMax / 2)],
    ['200,000 members', '/events', event(`{${members(200_000)}}`)],
    ['repeated members', '/events', event(`{${items('"a":1.0', publishMax - 100)}}`)],
    ['escapes, half pairs', '/events', event(`"${'\\ud800\\u00e9'.repeat(publishMax / 13)}"`)],
    ['1,000 small events', '/events', `[${Array(1000).fill(event('1.0')).join(',')}]`],
    ['16 KiB of 1.0 and {}', '/events', event(`1.0,${items('{}', 16 * KIB - 100)}`)],
    ['test event of {}', '/event-streams/est_AAAAAAAAAAAAAAAAAAAAAA/test', testEvent()],
    ['user of many parts', '/users', user(`{"x":[${items('{}', MIB - 500)}]}`)],
    ['user of 19,000 parts', '/users', user(`{"x":[${Array(19_000).fill('{}').join(',')}]}`)],
    ['user of 200,000 texts', '/users', user(`{"x":[${Array(200_000).fill('"a"').join(',')}]}`)],
    ['user of escapes', '/users', user(`{"x":"${'\\u00e9\\\\'.repeat(MIB / 9)}"}`)],
    ['many subscriptions', '/event-streams', `{"subscriptions":[${items('{"a":1}', MIB - 100)}]}`],
    ['many scopes', '/resource-servers', `{"scopes":[${items('"a"', MIB - 100)}]}`],
  ];
  const patches: [name: string, id: number, body: string][] = [
    ['PATCH of 19,800 parts', 1, '{"nickname":"a"}'],
    ['PATCH of 250,000 texts', 60, '{"nickname":"a"}'],
    ['PATCH of metadata of 250,000 texts', 60, '{"user_metadata":{"z":1}}'],
  ];
  const lists: [name: string, ...paths: string[]][] = [
    ['users of 1 MiB', '/users?take=100'],
    ['users, sorted', ...['email', 'updated_at', 'username'].map(sorted), '/users?per_page=100'],
    ['users, no index', '/users?sort=name:1', '/users?sort=user_metadata:-1&per_page=100'],
    ['streams of 130 KB', '/event-streams?take=100'],
    ['long queries', `/users?fields=${'a,'.repeat(500)}`, `/users?${'sort=email:1&'.repeat(600)}`],
  ];
  return [
    ...bodies.map(([name, path, body]) => ({
      name,
      ...slowly(body.length),
      requests: [{ method: 'POST', path, body }],
    })),
    ...patches.map(([name, id, body]) => ({
      name,
      connections: 2,
      pauseMs: 100,
      requests: [{ method: 'PATCH', path: `/users/leat%7C${id}`, body }],
    })),
    ...lists.map(([name, ...paths]) => ({
      name,
      connections: 2,
      pauseMs: 100,
      requests: paths.map((path) => ({ method: 'GET', path })),
    })),
    {
      name: 'never reads',
      connections: 25,
      pauseMs: 1000,
      silent: true,
      requests: [{ method: 'GET', path: '/users?take=7' }],
    },
    {
      name: 'at the byte limit',
      connections: 4,
      pauseMs: 0,
      requests: [
        { method: 'POST', path: '/events', body: `[${Array(4).fill(large()).join(',')}]` },
      ],
    },
  ];
}

function event(value: string): string {
  return `{"type":"hostile.event","data":{"x":[${value}]}}`;
}

/** Returns sixteen events of 255 KiB. */
function sixteen(item: string): string {
  return `[${Array(16)
    .fill(event(`1.0,${items(item, 255 * KIB)}`))
    .join(',')}]`;
}

function testEvent(): string {
  return `{"event_type":"hostile.event","data":{"x":[1.0,${items('{}', 255 * KIB)}]}}`;
}

function large(): string {
  return event(`"${'x'.repeat(250 * KIB)}"`);
}

function user(metadata: string): string {
  return `{"connection":"Username-Password-Authentication","email":"h@example.com","password":"Quiet-River-42","user_metadata":${metadata}}`;
}

function sorted(field: string): string {
  return `/users?per_page=7&sort=${field}:-1&include_totals=true`;
}

/** Repeats an item up to this many bytes. */
function items(item: string, bytes: number): string {
  return Array(Math.floor(bytes / (item.length + 1)))
    .fill(item)
    .join(',');
}

function members(count: number): string {
  return Array.from({ length: count }, (_, n) => `"k${n.toString(36)}":1.0`).join(',');
}
