import type { Millis } from './clock.ts';

/** The hosts of requests that are the domain of no tenant, as they were seen lately. */
export interface UnknownHosts {
  /** Notes a request whose token or session was accepted. */
  noteServed(host: string, now: Millis): void;
  /** Notes a request that got 404 for its host. Anybody can cause it. */
  noteRefused(host: string, now: Millis): void;
  /** Returns those of the last hour, in order. */
  seen(now: Millis): SeenHosts;
}

export interface SeenHosts {
  readonly served: readonly string[];
  readonly refused: readonly string[];
}

/** How long a host counts as seen. */
export const unknownHostMs = 3_600_000;
/** Of each kind; clients choose the names. */
const hostsMax = 20;
const hostCharactersMax = 100;

/** Creates an empty memory of hosts, bounded in number and length. */
export function createUnknownHosts(): UnknownHosts {
  const served = new Map<string, Millis>();
  const refused = new Map<string, Millis>();
  return {
    noteServed: (host, now) => note(served, host, now),
    noteRefused: (host, now) => note(refused, host, now),
    seen: (now) => ({ served: lately(served, now), refused: lately(refused, now) }),
  };
}

/** Returns a host to show: without what a terminal, a log or an `error_description` would read otherwise. */
export function shownHost(host: string): string {
  if (host === '') return '(none)';
  return host.slice(0, hostCharactersMax).replace(/[^\u0021\u0023-\u005B\u005D-\u007E]/g, '?');
}

/** The one that was seen longest ago makes room. */
function note(hosts: Map<string, Millis>, host: string, now: Millis): void {
  const name = shownHost(host);
  hosts.delete(name);
  hosts.set(name, now);
  const [oldest] = hosts.size > hostsMax ? hosts.keys() : [];
  if (oldest !== undefined) hosts.delete(oldest);
}

function lately(hosts: ReadonlyMap<string, Millis>, now: Millis): string[] {
  return [...hosts].flatMap(([host, at]) => (now - at < unknownHostMs ? [host] : [])).toSorted();
}
