import { Resolver as Channel } from 'node:dns';
import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import type { Clock, Timer } from '../../core/clock.ts';
import { isDefinite, timedOut } from './name-lookups.ts';
import { noNameServer } from './shortages.ts';
import { candidatesOf, parseHosts, parseSearchRules } from './name-files.ts';

/** Resolves names without occupying a thread per lookup, so that no lookup delays another. */
export interface Resolver {
  /**
   * Resolves to the addresses of a name, IPv4 first; an address resolves to itself. Rejects with
   * {@link ResolveFailed} in time or a little later, also when no name server responds.
   *
   * @param isRepeated the caller looks the name up again when it takes too long
   */
  resolve(
    this: void,
    name: string,
    timeoutMs: number,
    isRepeated?: boolean,
  ): Promise<readonly string[]>;
  /** Fails all lookups under way. */
  close(): void;
}

/** A name has no address, or no name server returned one in time. */
export class ResolveFailed extends Error {
  override readonly name = 'ResolveFailed';
  /**
   * The code of `node:dns`: `ENOTFOUND`, `ENODATA`, `ESERVFAIL`, `ETIMEOUT`, …; {@link noNameServer} where
   * the name servers of this machine are away.
   */
  readonly code: string;

  constructor(code: string) {
    super(`the name cannot be resolved: ${code}`);
    this.code = code;
  }
}

export interface ResolverDeps {
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  /** Addresses that are used of a response, per family. */
  readonly addressesMax: number;
  /** `address[:port]`; empty for those of the system. */
  readonly servers?: readonly string[];
  readonly hostsFile?: string;
  readonly resolvConf?: string;
}

/**
 * Creates a resolver that uses the hosts file, the rule for `localhost` (RFC 6761 section 6.3), and
 * the name servers and search domains of resolv.conf. getaddrinfo supports more (nsswitch.conf),
 * but blocks one of the process's four threads as long as a name server does not respond.
 *
 * Every query has a socket of its own: a forged response has to guess a new port each time, and the
 * library's statistics about a server (latency, failures) are not shared between names.
 */
export function createResolver(deps: ResolverDeps): Resolver {
  const {
    clock,
    servers = [],
    hostsFile = hostsFileOfSystem,
    resolvConf = '/etc/resolv.conf',
  } = deps;
  const watched = { clock, everyMs: checkEveryMs };
  const hosts = watchFile({ ...watched, path: hostsFile, parse: parseHosts });
  const rules = watchFile({ ...watched, path: resolvConf, parse: parseSearchRules });
  const underWay = new Set<Lookup>();
  let answeredMs = -Infinity;
  const answered = (): void => void (answeredMs = clock.elapsedMs());
  const lookupIn = async (
    names: readonly string[],
    timeoutMs: number,
  ): Promise<readonly string[]> => {
    const present = servers.length > 0 ? servers : new Channel().getServers();
    const lookup = new Lookup({ ...deps, answered }, present, timeoutMs);
    underWay.add(lookup);
    try {
      return await lookup.addressesOf(names);
    } finally {
      lookup.end(cancelledCode);
      underWay.delete(lookup);
    }
  };
  const probes = new Map<string, Promise<boolean>>();
  const probe = async (name: string): Promise<boolean> => {
    const beganMs = clock.elapsedMs();
    const last = answeredMs;
    // Whatever the answer is, there is one.
    await lookupIn([name], probeMs).catch(() => undefined);
    probes.delete(name);
    return answeredMs > last || answeredMs >= beganMs;
  };
  const areAvailable = (name: string): Promise<boolean> => {
    const about = parentOf(name);
    const present = probes.get(about) ?? probe(about);
    probes.set(about, present);
    return present;
  };
  return {
    resolve: async (text, timeoutMs, isRepeated = false) => {
      if (isIP(text) !== 0) return [text];
      const name = text.toLowerCase();
      const bare = name.replace(/\.$/, '');
      const local = hosts().get(bare) ?? (isLocalhost(bare) ? loopback : undefined);
      if (local !== undefined) return local;
      const names = candidatesOf(name, rules());
      for (let tries = 1; ; tries += 1) {
        const beganMs = clock.elapsedMs();
        try {
          return await lookupIn(names, tries === 1 ? timeoutMs : Math.min(timeoutMs, probeMs));
        } catch (error) {
          if (!(error instanceof ResolveFailed) || isAboutName(error)) throw error;
          // A name server that has answered about another name is available.
          const isAvailable = answeredMs > beganMs || (await areAvailable(bare));
          if (!isAvailable) throw new ResolveFailed(noNameServer);
          // Before that, it may have come back too late for this name.
          if (tries > 1 || (isRepeated && error.code === timedOut)) throw error;
        }
      }
    },
    close: () => {
      for (const lookup of underWay) lookup.end(cancelledCode);
    },
  };
}

const cancelledCode = 'ECANCELLED';

function isAboutName({ code }: ResolveFailed): boolean {
  return isDefinite(code) || code === cancelledCode;
}

/** The longest wait for an answer of name servers that may have been away until now. */
const probeMs = 2000;

/**
 * Returns a name above this one, which is not the business of whoever has this one: its top-level domain,
 * about which every resolver knows something.
 */
function parentOf(name: string): string {
  const dot = name.lastIndexOf('.');
  return dot < 0 ? 'localhost' : name.slice(dot + 1);
}

const hostsFileOfSystem =
  process.platform === 'win32' ? 'C:\\Windows\\System32\\drivers\\etc\\hosts' : '/etc/hosts';

/** A changed hosts file or resolv.conf is noticed after this time. */
const checkEveryMs = 1000;

const loopback: readonly string[] = ['127.0.0.1', '::1'];

function isLocalhost(name: string): boolean {
  return name === 'localhost' || name.endsWith('.localhost');
}

/** Once one family has addresses, the other one has this much longer (RFC 8305 section 3). */
const otherFamilyMs = 250;

/** When the name servers are queried in turn, until one has responded. */
const queryAtMs: readonly number[] = [0, 700, 1700, 3000];

/** The lookup cancels the channel itself. */
const neverEnding = { timeout: 60_000, maxTimeout: 60_000, tries: 1 };

/** The number that glibc queries. */
const serversMax = 3;

type Family = 4 | 6;
type Reply = { readonly addresses: readonly string[] } | { readonly code: string };

interface LookupDeps extends Pick<ResolverDeps, 'clock' | 'addressesMax'> {
  /** A name server has answered, if only that there is no such name. */
  readonly answered: () => void;
}

/** All queries for one name. */
class Lookup {
  readonly #deps: LookupDeps;
  readonly #servers: readonly string[];
  readonly #timers = new Set<Timer>();
  readonly #channels = new Set<Channel>();
  readonly #ended = Promise.withResolvers<Reply>();
  #isOver = false;

  constructor(deps: LookupDeps, servers: readonly string[], timeoutMs: number) {
    this.#deps = deps;
    this.#servers = servers.slice(0, serversMax);
    this.#after(timeoutMs, () => this.end(timedOut));
  }

  /** Fails the lookup with a code. */
  end(code: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#ended.resolve({ code });
    for (const timer of this.#timers) timer.cancel();
    for (const channel of this.#channels) channel.cancel();
  }

  async addressesOf(names: readonly string[]): Promise<readonly string[]> {
    let failure = 'ENOTFOUND';
    for (const name of names) {
      const reply = await this.#resolve(name);
      if ('addresses' in reply) return reply.addresses;
      failure = lessDefinite(failure, reply.code);
      if (this.#isOver) break;
    }
    throw new ResolveFailed(failure);
  }

  /** Queries both families at the same time. */
  async #resolve(name: string): Promise<Reply> {
    const four = this.#queryAll(name, 4);
    const six = this.#queryAll(name, 6);
    const first = await Promise.race([four, six]);
    if ('addresses' in first) {
      const tooLate = Promise.withResolvers<Reply>();
      this.#after(otherFamilyMs, () => tooLate.resolve({ code: timedOut }));
      const both = [Promise.race([four, tooLate.promise]), Promise.race([six, tooLate.promise])];
      return joined(await Promise.all(both));
    }
    return joined(await Promise.all([four, six]));
  }

  /**
   * Queries one server after the other: the next one when the one before has failed or not
   * responded for a while. A late response still counts, as a server may take seconds.
   */
  #queryAll(name: string, family: Family): Promise<Reply> {
    const { promise, resolve } = Promise.withResolvers<Reply>();
    let queried = 0;
    let failed = 0;
    let isResolved = false;
    const queryNext = (): void => {
      const server = this.#servers[queried % this.#servers.length];
      if (isResolved || this.#isOver || queried >= queryAtMs.length || server === undefined) return;
      const waitMs = (queryAtMs[queried + 1] ?? Infinity) - (queryAtMs[queried] ?? 0);
      queried += 1;
      if (Number.isFinite(waitMs)) this.#after(waitMs, queryNext);
      this.#query(server, name, family, (reply) => {
        failed += 1;
        if ('addresses' in reply || isDefinite(reply.code) || failed >= this.#servers.length) {
          isResolved = true;
          resolve(reply);
        } else queryNext();
      });
    };
    queryNext();
    return Promise.race([promise, this.#ended.promise]);
  }

  #query(server: string, name: string, family: Family, ended: (reply: Reply) => void): void {
    const { addressesMax, answered } = this.#deps;
    const channel = new Channel(neverEnding);
    channel.setServers([server]);
    this.#channels.add(channel);
    const report = (error: NodeJS.ErrnoException | null, addresses: readonly string[]): void => {
      this.#channels.delete(channel);
      if (error === null || isDefinite(codeOf(error))) answered();
      if (error !== null) ended({ code: codeOf(error) });
      // Aliases without an address.
      else if (addresses.length === 0) ended({ code: 'ENODATA' });
      else ended({ addresses: addresses.slice(0, addressesMax) });
    };
    if (family === 4) channel.resolve4(name, report);
    else channel.resolve6(name, report);
  }

  #after(delayMs: number, action: () => void): void {
    const timer = this.#deps.clock.after(delayMs, () => {
      this.#timers.delete(timer);
      action();
    });
    this.#timers.add(timer);
  }
}

function joined(replies: readonly Reply[]): Reply {
  const addresses = replies.flatMap((reply) => ('addresses' in reply ? reply.addresses : []));
  if (addresses.length > 0) return { addresses };
  const codes = replies.flatMap((reply) => ('code' in reply ? [reply.code] : []));
  return { code: codes.reduce(lessDefinite, 'ENOTFOUND') };
}

/**
 * Returns the code that is less definite: a name that one server does not know may exist elsewhere.
 */
function lessDefinite(one: string, other: string): string {
  if (!isDefinite(other)) return other;
  return one === 'ENOTFOUND' ? other : one;
}

/** Returns the code of an error; an invalid name does not exist, as for getaddrinfo. */
function codeOf({ code = '' }: NodeJS.ErrnoException): string {
  return code === 'EBADNAME' || code === 'EBADQUERY' ? 'ENOTFOUND' : code;
}

interface WatchedFileDeps<T> {
  readonly path: string;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  /** The file is checked for a change at most this often. */
  readonly everyMs: number;
  /** Reads the text of the file; of one that is missing or unreadable, the empty text. */
  readonly parse: (text: string) => T;
}

/**
 * Returns a function that returns the parsed content of a small file, read again after it was
 * changed or replaced. The file is checked at the call, as a watch misses the replacement of a
 * file.
 */
function watchFile<T extends object>(deps: WatchedFileDeps<T>): () => T {
  const { path, clock, everyMs, parse } = deps;
  let present: T | undefined;
  let version: string | undefined;
  let checkedMs = -Infinity;
  return () => {
    const nowMs = clock.elapsedMs();
    if (present !== undefined && nowMs - checkedMs < everyMs) return present;
    checkedMs = nowMs;
    const found = versionOf(path);
    if (present !== undefined && found === version) return present;
    version = found;
    present = parse(textOf(path));
    return present;
  };
}

function versionOf(path: string): string | undefined {
  const stat = statSync(path, { throwIfNoEntry: false, bigint: true });
  return stat && `${stat.dev} ${stat.ino} ${stat.size} ${stat.mtimeNs}`;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
