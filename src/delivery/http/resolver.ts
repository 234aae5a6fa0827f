import { Resolver as Channel } from 'node:dns';
import { isIP } from 'node:net';
import type { Clock, Timer } from '../../core/clock.ts';
import { isDefinite, timedOut } from './name-lookups.ts';
import { candidatesOf, parseHosts, parseSearchRules } from './name-files.ts';
import { watchFile } from './watched-file.ts';

/** Resolves names without a thread of its own for each: no lookup holds up another one. */
export interface Resolver {
  /**
   * Resolves to the addresses of a name, IPv4 first; an address resolves to itself. Rejects with
   * {@link ResolveFailed}, in time whatever the name servers do.
   */
  resolve(this: void, name: string, timeoutMs: number): Promise<readonly string[]>;
  /** Ends all lookups under way as failed. */
  close(): void;
}

/** A name has no address, or no name server said one in time. */
export class ResolveFailed extends Error {
  override readonly name = 'ResolveFailed';
  /** As `node:dns` names it: `ENOTFOUND`, `ENODATA`, `ESERVFAIL`, `ETIMEOUT`, … */
  readonly code: string;

  constructor(code: string) {
    super(`the name cannot be resolved: ${code}`);
    this.code = code;
  }
}

export interface ResolverDeps {
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  /** Taken of an answer, of each family. */
  readonly addressesMax: number;
  /** `address[:port]`; those of the system when there is none. */
  readonly servers?: readonly string[];
  readonly hostsFile?: string;
  readonly resolvConf?: string;
}

/**
 * Resolves by the hosts file, the rule for `localhost` (RFC 6761 section 6.3), and the name servers
 * and search domains of resolv.conf. getaddrinfo would honour more (nsswitch.conf), but takes one of
 * the process's four threads for as long as a name server is silent.
 *
 * Every question has a socket of its own: an answer has to guess a new port each time, and what the
 * library learns about a server (its latency, its failures) cannot pass from one name to another.
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
  return {
    resolve: async (text, timeoutMs) => {
      if (isIP(text) !== 0) return [text];
      const name = text.toLowerCase();
      const bare = name.replace(/\.$/, '');
      const local = hosts().get(bare) ?? (isLocalhost(bare) ? loopback : undefined);
      if (local !== undefined) return local;
      const present = servers.length > 0 ? servers : new Channel().getServers();
      const lookup = new Lookup(deps, present, timeoutMs);
      underWay.add(lookup);
      try {
        return await lookup.addressesOf(candidatesOf(name, rules()));
      } finally {
        lookup.end('ECANCELLED');
        underWay.delete(lookup);
      }
    },
    close: () => {
      for (const lookup of underWay) lookup.end('ECANCELLED');
    },
  };
}

const hostsFileOfSystem =
  process.platform === 'win32' ? 'C:\\Windows\\System32\\drivers\\etc\\hosts' : '/etc/hosts';

/** A changed hosts file or resolv.conf is noticed after this time. */
const checkEveryMs = 1000;

const loopback: readonly string[] = ['127.0.0.1', '::1'];

function isLocalhost(name: string): boolean {
  return name === 'localhost' || name.endsWith('.localhost');
}

/** Once one family has addresses, the other one gets this much longer (RFC 8305 section 3). */
const otherFamilyMs = 250;

/** When the name servers are asked, the first one first, as long as none has answered. */
const askAtMs: readonly number[] = [0, 700, 1700, 3000];

/** The lookup ends the channel. */
const neverEnding = { timeout: 60_000, maxTimeout: 60_000, tries: 1 };

/** As many as glibc asks. */
const serversMax = 3;

type Family = 4 | 6;
type Reply = { readonly addresses: readonly string[] } | { readonly code: string };

/** Everything that is asked for one name. */
class Lookup {
  readonly #deps: ResolverDeps;
  readonly #servers: readonly string[];
  readonly #timers = new Set<Timer>();
  readonly #channels = new Set<Channel>();
  readonly #ended = Promise.withResolvers<Reply>();
  #isOver = false;

  constructor(deps: ResolverDeps, servers: readonly string[], timeoutMs: number) {
    this.#deps = deps;
    this.#servers = servers.slice(0, serversMax);
    this.#after(timeoutMs, () => this.end(timedOut));
  }

  /** Ends what is under way with a code. */
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
      failure = graver(failure, reply.code);
      if (this.#isOver) break;
    }
    throw new ResolveFailed(failure);
  }

  /** Asks for both families at once. */
  async #resolve(name: string): Promise<Reply> {
    const four = this.#ask(name, 4);
    const six = this.#ask(name, 6);
    const first = await Promise.race([four, six]);
    if ('addresses' in first) {
      const storeRetry = Promise.withResolvers<Reply>();
      this.#after(otherFamilyMs, () => storeRetry.resolve({ code: timedOut }));
      const both = [
        Promise.race([four, storeRetry.promise]),
        Promise.race([six, storeRetry.promise]),
      ];
      return joined(await Promise.all(both));
    }
    return joined(await Promise.all([four, six]));
  }

  /**
   * Asks one server after the other, the next one when the one before has not answered for a while
   * or could not say. A late answer still counts: a server may take seconds to find one.
   */
  #ask(name: string, family: Family): Promise<Reply> {
    const { promise, resolve } = Promise.withResolvers<Reply>();
    let asked = 0;
    let failed = 0;
    let isAnswered = false;
    const askNext = (): void => {
      const server = this.#servers[asked % this.#servers.length];
      if (isAnswered || this.#isOver || asked >= askAtMs.length || server === undefined) return;
      const waitMs = (askAtMs[asked + 1] ?? Infinity) - (askAtMs[asked] ?? 0);
      asked += 1;
      if (Number.isFinite(waitMs)) this.#after(waitMs, askNext);
      this.#query(server, name, family, (reply) => {
        failed += 1;
        if ('addresses' in reply || isDefinite(reply.code) || failed >= this.#servers.length) {
          isAnswered = true;
          resolve(reply);
        } else askNext();
      });
    };
    askNext();
    return Promise.race([promise, this.#ended.promise]);
  }

  #query(server: string, name: string, family: Family, ended: (reply: Reply) => void): void {
    const { addressesMax } = this.#deps;
    const channel = new Channel(neverEnding);
    channel.setServers([server]);
    this.#channels.add(channel);
    const report = (error: NodeJS.ErrnoException | null, addresses: readonly string[]): void => {
      this.#channels.delete(channel);
      if (error !== null) ended({ code: codeOf(error) });
      // Aliases that lead nowhere.
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
  return { code: codes.reduce(graver, 'ENOTFOUND') };
}

/** Which of two failures says more: a name that one server does not know may exist elsewhere. */
function graver(one: string, other: string): string {
  if (!isDefinite(other)) return other;
  return one === 'ENOTFOUND' ? other : one;
}

/** A text that cannot be a name is a name that does not exist, as for getaddrinfo. */
function codeOf({ code = '' }: NodeJS.ErrnoException): string {
  return code === 'EBADNAME' || code === 'EBADQUERY' ? 'ENOTFOUND' : code;
}
