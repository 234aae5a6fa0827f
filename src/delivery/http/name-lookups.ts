import type { Clock } from '../../core/clock.ts';
import { Deque } from '../../log/deque.ts';
import { noNameServer, type Shortages } from './shortages.ts';

/** The owner that a lookup is charged to: a tenant's id, or the service itself. */
export type LookupOwner = number | 'system';

/** The result of a lookup. */
export type NameResult =
  | { readonly kind: 'found'; readonly addresses: readonly string[] }
  /** The name has no address, or no server responded; `code` is that of the resolver. */
  | { readonly kind: 'failed'; readonly code: string };

/** Looks names up within bounds, and caches and shares the results. */
export interface NameLookups {
  /**
   * Returns the last result of a name: addresses while they are usable, else a failure while it is
   * valid.
   */
  usable(name: string): NameResult | undefined;
  /**
   * Returns the same, and also a failure as old as usable addresses: for an attempt that has begun
   * and should not wait for a lookup.
   */
  last(name: string): NameResult | undefined;
  /**
   * Returns true when an attempt can begin with a {@link NameLookups.usable} result; addresses that
   * are not valid any more are refreshed meanwhile. Otherwise begins or queues the lookup, and
   * resolves when it has ended; never rejects.
   */
  prepare(owner: LookupOwner, name: string): true | Promise<void>;
  /** Returns true when {@link NameLookups.prepare} would return true; starts no lookup. */
  isReady(name: string): boolean;
  /** Looks a name up, or joins the lookup under way. */
  find(owner: LookupOwner, name: string, request: LookupRequest): void;
  count(): LookupCount;
}

export interface LookupRequest {
  /** Goes before the other lookups of its owner. */
  readonly first?: boolean;
  /**
   * Called when the lookup starts, also when it restarts in a slower class; within
   * {@link NameLookups.find} when it is under way.
   */
  readonly begun?: () => void;
  /**
   * Called once, never within {@link NameLookups.find}. Receives the former addresses where these
   * are usable and no name server responded.
   */
  readonly ended: (result: NameResult) => void;
}

export interface LookupCount {
  readonly waiting: number;
  readonly underWay: number;
  /** Names whose last result is cached. */
  readonly names: number;
}

export interface NameLookupsDeps {
  readonly clock: Pick<Clock, 'elapsedMs'>;
  /**
   * Resolves to the addresses of a name; else rejects with a `code`, which is {@link timedOut} when
   * no name server responded in time. `isRepeated`: the name is looked up again then.
   */
  readonly resolve: (
    name: string,
    timeoutMs: number,
    isRepeated: boolean,
  ) => Promise<readonly string[]>;
  readonly limits: NameLimits;
  /** Holds back lookups while no name server of this machine is available. */
  readonly shortages?: Pick<Shortages, 'names' | 'noted'>;
}

export interface NameLimits {
  /** Classes by the duration of lookups, quickest first; the last one is for all slower ones. */
  readonly classes: readonly LookupClass[];
  /** Index of the class of names that were never looked up. */
  readonly unknownClass: number;
  /** Time limit of a lookup of the last class. */
  readonly timeoutMs: number;
  /** How long addresses and failures are valid. */
  readonly keptMs: number;
  readonly failureKeptMs: number;
  /** How long addresses are used while they are refreshed, or when that fails. */
  readonly usableMs: number;
  /** Cached names; the least recently looked up are removed first. */
  readonly namesMax: number;
}

/**
 * A class of names whose lookups take about as long. A name moves to the next quicker class after
 * each quicker lookup, and at once to its class after a slower one.
 */
export interface LookupClass {
  /**
   * Lookups of this class take less. One that takes longer is stopped and waits for its turn in the
   * next class; but none has less time than the lookup of an unknown name.
   */
  readonly belowMs: number;
  /**
   * The most lookups under way in total and per owner. The numbers include the slower classes, so
   * the rest is reserved for quicker names.
   */
  readonly atOnce: number;
  readonly atOncePerOwner: number;
}

/** The code of a lookup that took too long. */
export const timedOut = 'ETIMEOUT';

/** Returns true when the name does not exist or has no such address: no other server knows more. */
export function isDefinite(code: string): boolean {
  return code === 'ENOTFOUND' || code === 'ENODATA';
}

/** Every so many starts the classes are served in reverse order, so that none waits forever. */
const reverseEvery = 8;

/** See {@link NameLookups}. Does no I/O: `resolve` and the clock are passed in. */
export function createNameLookups(deps: NameLookupsDeps): NameLookups {
  return new FairLookups(deps);
}

/** A name with its last results, and its lookup that waits or is under way. */
interface Name {
  readonly name: string;
  found: Dated | undefined;
  /** Later than `found`. */
  failed: Dated | undefined;
  /** An index of {@link NameLimits.classes}. */
  class: number;
  isUnderWay: boolean;
  /** One of its requests is {@link LookupRequest.first}. */
  isFirst: boolean;
  /** The owners in whose queues it waits. */
  readonly owners: Set<Owner>;
  requests: Request[];
}

interface Dated {
  readonly result: NameResult;
  readonly atMs: number;
}

interface Request extends LookupRequest {
  readonly owner: LookupOwner;
}

interface Owner {
  readonly id: LookupOwner;
  readonly classes: readonly OwnClass[];
  /** By class. */
  readonly underWay: number[];
}

/** The waiting names of an owner in one class. */
interface OwnClass {
  readonly waiting: Map<string, Name>;
  /** The owner is in the queue of the class. */
  isQueued: boolean;
}

class FairLookups implements NameLookups {
  readonly #deps: NameLookupsDeps;
  /** Names with a lookup that waits or is under way. */
  readonly #active = new Map<string, Name>();
  /** The other names, in the order of their last lookup. */
  readonly #cached = new Map<string, Name>();
  /** Owners with a lookup that waits or is under way. */
  readonly #owners = new Map<LookupOwner, Owner>();
  /** By class: owners with a waiting name, round robin. */
  readonly #queues: readonly Deque<Owner>[];
  /** By class. */
  readonly #underWay: number[];
  readonly #atOnce: readonly number[];
  readonly #atOncePerOwner: readonly number[];
  readonly #quickestFirst: readonly number[];
  readonly #slowestFirst: readonly number[];
  #waiting = 0;
  #starts = 0;

  constructor(deps: NameLookupsDeps) {
    const { classes } = deps.limits;
    this.#deps = deps;
    this.#atOnce = classes.map(({ atOnce }) => atOnce);
    this.#atOncePerOwner = classes.map(({ atOncePerOwner }) => atOncePerOwner);
    this.#queues = classes.map(() => new Deque());
    this.#underWay = classes.map(() => 0);
    this.#quickestFirst = [...classes.keys()];
    this.#slowestFirst = this.#quickestFirst.toReversed();
  }

  usable(text: string): NameResult | undefined {
    const { usableMs, failureKeptMs } = this.#deps.limits;
    return this.#resultOf(text, usableMs, failureKeptMs);
  }

  last(text: string): NameResult | undefined {
    const { usableMs } = this.#deps.limits;
    return this.#resultOf(text, usableMs, usableMs);
  }

  isReady(text: string): boolean {
    return this.usable(text) !== undefined;
  }

  prepare(owner: LookupOwner, text: string): true | Promise<void> {
    const { keptMs, failureKeptMs } = this.#deps.limits;
    if (this.isReady(text)) {
      // Called for each attempt, so it does not join a refresh under way.
      const isValid = this.#resultOf(text, keptMs, failureKeptMs) !== undefined;
      if (!isValid && !this.#active.has(text) && this.#isOpen)
        this.find(owner, text, { ended: ignore });
      return true;
    }
    const { shortages } = this.#deps;
    if (shortages?.names.isOpen === false) return shortages.names.wait();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.find(owner, text, { ended: () => resolve() });
    return promise;
  }

  find(ownerId: LookupOwner, text: string, request: LookupRequest): void {
    const name = this.#nameOf(text);
    name.requests.push({ ...request, owner: ownerId });
    if (name.isUnderWay) {
      request.begun?.();
      return;
    }
    name.isFirst ||= request.first === true;
    this.#enqueue(this.#ownerOf(ownerId), name);
    this.#startAll();
  }

  count(): LookupCount {
    return {
      waiting: this.#waiting,
      underWay: sumOf(this.#underWay),
      names: this.#cached.size,
    };
  }

  get #isOpen(): boolean {
    return this.#deps.shortages?.names.isOpen !== false;
  }

  #resultOf(text: string, foundMs: number, failedMs: number): NameResult | undefined {
    const name = this.#cached.get(text) ?? this.#active.get(text);
    if (name === undefined) return undefined;
    const nowMs = this.#deps.clock.elapsedMs();
    if (name.found !== undefined && nowMs - name.found.atMs < foundMs) return name.found.result;
    if (name.failed !== undefined && nowMs - name.failed.atMs < failedMs) return name.failed.result;
    return undefined;
  }

  #nameOf(text: string): Name {
    const active = this.#active.get(text);
    if (active !== undefined) return active;
    const name = this.#cached.get(text) ?? newName(text, this.#deps.limits.unknownClass);
    this.#cached.delete(text);
    this.#active.set(text, name);
    return name;
  }

  #ownerOf(id: LookupOwner): Owner {
    const known = this.#owners.get(id);
    if (known !== undefined) return known;
    const { classes } = this.#deps.limits;
    const owner: Owner = {
      id,
      classes: classes.map(() => ({ waiting: new Map(), isQueued: false })),
      underWay: classes.map(() => 0),
    };
    this.#owners.set(id, owner);
    return owner;
  }

  #enqueue(owner: Owner, name: Name): void {
    const own = owner.classes[name.class];
    if (own === undefined) return;
    const { waiting } = own;
    if (name.owners.size === 0) this.#waiting += 1;
    name.owners.add(owner);
    waiting.set(name.name, name);
    this.#queue(owner, name.class);
    if (!name.isFirst || waiting.size === 1) return;
    // Rare, and a Map has no front to add to.
    const all = [...waiting.values()].toSorted((a, b) => Number(b.isFirst) - Number(a.isFirst));
    waiting.clear();
    for (const each of all) waiting.set(each.name, each);
  }

  #queue(owner: Owner, index: number): void {
    const own = owner.classes[index];
    if (own === undefined || own.isQueued || own.waiting.size === 0) return;
    own.isQueued = true;
    this.#queues[index]?.push(owner);
  }

  #startAll(): void {
    while (this.#startOne());
  }

  #startOne(): boolean {
    const isReverse = this.#starts % reverseEvery === reverseEvery - 1;
    const order = isReverse ? this.#slowestFirst : this.#quickestFirst;
    for (const each of order) {
      if (!hasRoom(this.#underWay, this.#atOnce, each)) continue;
      const owner = this.#nextOwner(each);
      const next = owner?.classes[each]?.waiting.values().next().value;
      if (owner === undefined || next === undefined) continue;
      this.#start(owner, next);
      return true;
    }
    return false;
  }

  /**
   * Returns the next owner with a waiting name and room for a lookup; skips at most those with
   * lookups under way.
   */
  #nextOwner(index: number): Owner | undefined {
    const queue = this.#queues[index];
    for (let left = queue?.length ?? 0; left > 0; left -= 1) {
      const owner = queue?.shift();
      const own = owner?.classes[index];
      if (owner === undefined || own === undefined) return undefined;
      own.isQueued = false;
      this.#queue(owner, index);
      // Its names may have been started for another owner that waited for them as well.
      if (own.waiting.size === 0) continue;
      if (hasRoom(owner.underWay, this.#atOncePerOwner, index)) return owner;
    }
    return undefined;
  }

  #start(owner: Owner, name: Name): void {
    for (const each of name.owners) {
      each.classes[name.class]?.waiting.delete(name.name);
      if (each !== owner) this.#forget(each);
    }
    name.owners.clear();
    name.isUnderWay = true;
    this.#starts += 1;
    this.#deps.shortages?.names.began();
    this.#waiting -= 1;
    this.#count(owner, name.class, 1);
    for (const { begun } of name.requests) begun?.();
    void this.#run(owner, name);
  }

  #count(owner: Owner, index: number, change: 1 | -1): void {
    for (const underWay of [this.#underWay, owner.underWay]) {
      underWay[index] = (underWay[index] ?? 0) + change;
    }
  }

  async #run(owner: Owner, name: Name): Promise<void> {
    const { clock, limits } = this.#deps;
    const present = name.class;
    const isLast = present === limits.classes.length - 1;
    const begunMs = clock.elapsedMs();
    const result = await this.#resolve(name.name, timeLimitOf(present, limits), !isLast);
    this.#count(owner, present, -1);
    name.isUnderWay = false;
    const isRequeued = !isLast && result.kind === 'failed' && result.code === timedOut;
    const tookMs = clock.elapsedMs() - begunMs;
    const taken = limits.classes.findIndex(({ belowMs }) => tookMs < belowMs);
    name.class = Math.max(taken, present + (isRequeued ? 1 : -1));
    const { requests } = name;
    if (isRequeued) for (const each of requests) this.#enqueue(this.#ownerOf(each.owner), name);
    else this.#cache(name, result);
    this.#forget(owner);
    this.#startAll();
    if (isRequeued) return;
    const known = this.usable(name.name) ?? result;
    for (const each of requests) each.ended(known);
  }

  async #resolve(name: string, timeoutMs: number, isRepeated: boolean): Promise<NameResult> {
    try {
      const addresses = await this.#deps.resolve(name, timeoutMs, isRepeated);
      if (addresses.length > 0) return { kind: 'found', addresses };
      return { kind: 'failed', code: 'ENODATA' };
    } catch (error) {
      const { code } = Object(error) as { readonly code?: unknown };
      return { kind: 'failed', code: typeof code === 'string' ? code : '' };
    }
  }

  #cache(name: Name, result: NameResult): void {
    const { shortages, limits } = this.#deps;
    const isShortage = result.kind === 'failed' && result.code === noNameServer;
    if (isShortage) shortages?.noted(result);
    const dated: Dated = { result, atMs: this.#deps.clock.elapsedMs() };
    // A failure for want of a name server says nothing about the name.
    name.failed = result.kind === 'failed' && !isShortage ? dated : undefined;
    if (result.kind === 'found') name.found = dated;
    // A name server that does not respond does not invalidate the former addresses.
    else if (isDefinite(result.code)) name.found = undefined;
    name.isFirst = false;
    name.requests = [];
    this.#active.delete(name.name);
    this.#cached.set(name.name, name);
    for (const oldest of this.#cached.keys()) {
      if (this.#cached.size <= limits.namesMax) break;
      this.#cached.delete(oldest);
    }
  }

  #forget(owner: Owner): void {
    const isIdle =
      sumOf(owner.underWay) === 0 && owner.classes.every(({ waiting }) => waiting.size === 0);
    if (isIdle) this.#owners.delete(owner.id);
  }
}

function timeLimitOf(index: number, { classes, unknownClass, timeoutMs }: NameLimits): number {
  return Math.min(classes[Math.max(index, unknownClass)]?.belowMs ?? Infinity, timeoutMs);
}

function newName(name: string, unknownClass: number): Name {
  return {
    name,
    found: undefined,
    failed: undefined,
    class: unknownClass,
    isUnderWay: false,
    isFirst: false,
    owners: new Set(),
    requests: [],
  };
}

/**
 * Returns whether another lookup may start in a class. Each maximum is for its class and the slower
 * ones.
 */
function hasRoom(underWay: readonly number[], max: readonly number[], index: number): boolean {
  let sum = 0;
  for (let each = max.length - 1; each >= 0; each -= 1) {
    sum += underWay[each] ?? 0;
    if (each <= index && sum >= (max[each] ?? 0)) return false;
  }
  return true;
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

function ignore(): void {}
