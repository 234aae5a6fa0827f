import { tenantDomainOf } from '../config.ts';
import { certificateWarningMs } from '../core/client-certificate.ts';
import type { Millis } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { inspectedBy } from '../core/inspector.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import type { Destination } from '../core/types.ts';
import type { Store } from '../store/port/store.ts';
import type { Args, Call, CommandDeps } from './command.ts';
import { databaseFindings } from './database-findings.ts';
import { bad, type Finding, ok, warn } from './finding.ts';
import { processLimits, processFindings } from './process-findings.ts';
import { bytesText, countText, durationText } from './table.ts';
import { unknownHostFindings } from './host-findings.ts';

/** The part of `leat doctor` that needs the store. */
export interface StoreReport {
  readonly findings: readonly Finding[];
  readonly bytes: number;
  /** When the oldest event was published; absent without events, and from older servers. */
  readonly since?: Millis | undefined;
  /** Hosts that enabled streams send to, the first {@link hostsMax}. */
  readonly hosts: readonly string[];
}

/** Bounds the time of the check of names. */
const hostsMax = 100;
const streamsReadMax = 2000;
/** Synchronized clocks of two machines differ by less. */
const skewMsMax = 60_000;

/** Checks the store; returns a {@link StoreReport} as JSON. */
export async function storeFindings(deps: CommandDeps, _args: Args, call: Call): Promise<string> {
  const { store } = deps;
  await store.ping();
  const size = await store.overview.size();
  const { hosts, broken, expiries } = await streamsRead(store, call.signal);
  const tenants = await tenantsRead(store);
  const report: StoreReport = {
    bytes: size.bytes,
    since: tenants.oldest,
    findings: [
      await engineFinding(deps),
      await secretsFinding(store),
      ...brokenFindings(broken),
      ...certificateFindings(expiries, deps.clock.now()),
      ...(await domainFindings(deps)),
      ...unknownHostFindings(deps, await store.tenants.list()),
      await nodesFinding(store),
      spaceFinding(size),
      ...(await leavingFindings(store)),
      ...(await faultFindings(store)),
      await clockFinding(deps, tenants.newest),
      ...(await serverFindings(deps)),
      ...processFindings(await processLimits(), deps.config),
    ],
    hosts,
  };
  return JSON.stringify(report);
}

async function engineFinding({ store }: CommandDeps): Promise<Finding> {
  const { name } = await store.overview.engine();
  return ok('store', `${name}; its schema is of this version, and the secret key fits`);
}

async function secretsFinding({ secrets }: Store): Promise<Finding> {
  const { key, former } = await secrets.state();
  if (former !== undefined) {
    const said = `the change from key ${former} to key ${key} is unfinished`;
    return warn('secrets', said, 'leat secrets rotate ends it');
  }
  const [first, ...others] = secrets.keys();
  if (first !== key) {
    return warn('secrets', `key ${first} seals nothing yet`, 'leat secrets rotate changes to it');
  }
  if (others.length === 0) return ok('secrets', `key ${key} seals all of them`);
  return warn(
    'secrets',
    `key ${others.join(',')} seals nothing any more`,
    'remove it from LEAT_SECRET_KEY and restart the nodes one by one',
  );
}

function brokenFindings(broken: readonly string[]): Finding[] {
  const [first] = broken;
  if (first === undefined) return [];
  const others = broken.length === 1 ? '' : ` and ${countText(broken.length - 1)} more`;
  return [
    bad(
      'secrets',
      `those of stream ${first}${others} do not open, so it is not delivered`,
      'delete the stream and create it again, or restore its row: docs/secrets.md',
    ),
  ];
}

/** When the client certificate of a stream expires. */
interface Expiry {
  readonly id: string;
  readonly at: Millis;
}

function certificateFindings(expiries: readonly Expiry[], now: Millis): Finding[] {
  const near = expiries.filter(({ at }) => at <= now + certificateWarningMs);
  const [first, ...others] = near.toSorted((one, other) => one.at - other.at);
  if (first === undefined) return [];
  const which = `that of stream ${first.id}`;
  const when = first.at <= now ? 'expired at' : 'expires at';
  const rest = others.length === 0 ? '' : `; ${countText(others.length)} more expire soon`;
  return [
    warn(
      'client certificates',
      `${which} ${when} ${formatTime(first.at)}${rest}`,
      `leat streams update ${first.id} --certificate-file <file> --certificate-key-file <file>`,
    ),
  ];
}

/** A start with these settings is refused while other nodes run, and changes the issuer otherwise. */
async function domainFindings({ store, config }: CommandDeps): Promise<Finding[]> {
  const [first] = await store.tenants.list();
  const domain = tenantDomainOf(config);
  if (first === undefined || first.domain === domain) return [];
  return [
    warn(
      'domain',
      `the first tenant is at ${first.domain}, but these settings have ${domain}`,
      'run leat doctor with the settings of the service; a start with these changes the issuer, which ends all tokens',
    ),
  ];
}

async function nodesFinding(store: Store): Promise<Finding> {
  const nodes = await store.ownership.nodes();
  const ended = nodes.filter(({ leaseMs }) => leaseMs <= 0);
  if (nodes.length === 0) return ok('nodes', 'none runs');
  if (ended.length === 0) return ok('nodes', `${countText(nodes.length)} with a lease`);
  const names = ended.map(({ id }) => id).join(', ');
  return warn(
    'nodes',
    `the lease of ${names} has expired and no other node has its streams yet`,
    'start a node, or check the log of a running one',
  );
}

function spaceFinding({ bytes, freeBytes = 0, shrinks }: Awaited<SizeOf>): Finding {
  if (shrinks !== false) return ok('space', `the store takes ${bytesText(bytes)}`);
  return warn(
    'space',
    `the file takes ${bytesText(bytes)}, ${bytesText(freeBytes)} of it free, and never shrinks`,
    'stop the server and run leat doctor --vacuum once',
  );
}

type SizeOf = ReturnType<Store['overview']['size']>;

async function leavingFindings(store: Store): Promise<Finding[]> {
  const leaving = await store.tenants.leaving();
  return leaving.map(({ name }) =>
    warn('tenants', `${name} is being deleted`, `leat tenants delete ${name} resumes it`),
  );
}

async function faultFindings(store: Store): Promise<Finding[]> {
  const faults = await store.overview.faults();
  return faults.map(({ said, next }) => bad('contents', said, next));
}

async function serverFindings({ store, config }: CommandDeps): Promise<Finding[]> {
  const server = await store.overview.server();
  if (server === undefined) return [];
  return databaseFindings(server, config, await store.ownership.nodes());
}

interface TenantsRead {
  /** When the oldest event of all tenants was published. */
  readonly oldest: Millis | undefined;
  /** When the newest event of each tenant was published. */
  readonly newest: readonly { readonly name: string; readonly at: Millis }[];
}

async function tenantsRead(store: Store): Promise<TenantsRead> {
  const newest: { readonly name: string; readonly at: Millis }[] = [];
  let oldest: Millis | undefined;
  for (const { id, name } of await store.tenants.list()) {
    const overview = await store.overview.tenant(id);
    if (overview?.newestPublishedAt !== undefined) {
      newest.push({ name, at: overview.newestPublishedAt });
    }
    const at = overview?.oldestPublishedAt;
    if (at !== undefined) oldest = Math.min(oldest ?? at, at);
    await yieldToEventLoop();
  }
  return { oldest, newest };
}

/** Compares the clock with the store's clock, where it has one, and with the newest events. */
async function clockFinding(
  { store, clock }: CommandDeps,
  newest: TenantsRead['newest'],
): Promise<Finding> {
  const { now: storeNow } = await store.overview.engine();
  const now = clock.now();
  const skewMs = storeNow === undefined ? 0 : now - storeNow;
  if (Math.abs(skewMs) > skewMsMax) {
    const way = skewMs > 0 ? 'ahead of' : 'behind';
    return bad(
      'clock',
      `this machine is ${durationText(Math.abs(skewMs))} ${way} the store`,
      'synchronize the clocks, for example with chrony or systemd-timesyncd',
    );
  }
  const early = newest.find(({ at }) => at > (storeNow ?? now) + skewMsMax);
  if (early === undefined) return ok('clock', 'agrees with the store');
  return bad(
    'clock',
    `the newest event of ${early.name} was published ${durationText(early.at - now)} from now: the clock was or is wrong`,
    'check the clock of the machine; retention of these events counts from that instant',
  );
}

function urlsOf({ endpoint, authorization }: Destination): readonly string[] {
  return 'tokenEndpoint' in authorization ? [endpoint, authorization.tokenEndpoint] : [endpoint];
}

interface StreamsRead {
  /** Hosts of enabled streams. */
  readonly hosts: readonly string[];
  /** Ids of streams whose secrets do not open. */
  readonly broken: readonly string[];
  /** Of the client certificates of enabled streams. */
  readonly expiries: readonly Expiry[];
}

/** Reads the first {@link streamsReadMax} streams, or fewer once they have {@link hostsMax} hosts. */
async function streamsRead(store: Store, signal: AbortSignal): Promise<StreamsRead> {
  const expiries: Expiry[] = [];
  const broken: string[] = [];
  const hosts = new Set<string>();
  let read = 0;
  for (const { id } of await store.tenants.list()) {
    let after: string | undefined;
    do {
      signal.throwIfAborted();
      const page = await store.streams.list(id, { after, take: 100 });
      for (const { id: stream, status, destination } of page.items) {
        if (status !== 'enabled') continue;
        const expiresAt = destination.clientCertificate?.expiresAt;
        if (expiresAt !== undefined) expiries.push({ id: stream, at: expiresAt });
        for (const url of urlsOf(destination)) {
          // Nothing is sent to the host of an inspector.
          if (inspectedBy(url) === undefined) hosts.add(new URL(url).hostname);
        }
      }
      broken.push(...page.broken);
      read += page.items.length + page.broken.length;
      after = page.next;
      await yieldToEventLoop();
    } while (after !== undefined && read < streamsReadMax && hosts.size < hostsMax);
  }
  return { hosts: [...hosts].slice(0, hostsMax), broken, expiries };
}
