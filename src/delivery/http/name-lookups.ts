import type { Clock } from '../../core/clock.ts';
import { Deque } from '../../log/deque.ts';

/** Who a lookup is charged to: a tenant's id, or the service itself. */
export type LookupOwner = number | 'system';

/** What a name resolved to. */
export type NameAnswer =
  | { readonly kind: 'found'; readonly addresses: readonly string[] }
  /** The name has no address, or no server could say; `code` is that of the resolver. */
  | { readonly kind: 'failed'; readonly code: string };

/** Looks names up within bounds, keeps what they resolved to, and shares it among all who ask. */
export interface NameLookups {
  /**
   * Returns what a name resolved to: addresses for as long as they are usable, else a failure while
   * that is valid.
   */
  usable(name: string): NameAnswer | undefined;
  /**
   * Returns the same, and also a failure as old as usable addresses: for an attempt that has begun,
   * which should not wait for a lookup.
   */
  last(name: string): NameAnswer | undefined;
  /**
   * Returns true when an attempt can begin with what is {@link NameLookups.usable}; addresses that
   * are not valid any more are refreshed meanwhile. Otherwise begins or queues the lookup, and
   * resolves when it has ended; never rejects.
   */
  prepare(owner: LookupOwner, name: string): true | Promise<void>;
  /** Returns true when {@link NameLookups.prepare} would return true; starts no lookup. */
  isReady(name: string): boolean;
  /** Looks a name up, unless that is under way. */
  find(owner: LookupOwner, name: string, request: LookupRequest): void;
  count(): LookupCount;
}

export interface LookupRequest {
  /** Goes before those of its owner that are not. */
  readonly first?: boolean;
  /** Called when the lookup gets a place, also a later one; within {@link NameLookups.find} when it has one. */
  readonly begun?: () => void;
  /**
   * Called once, never within {@link NameLookups.find}. Gets the addresses of before where these are
   * usable and no name server could say.
   */
  readonly ended: (answer: NameAnswer) => void;
}

export interface LookupCount {
  readonly waiting: number;
  readonly underWay: number;
  /** Names whose last answer is remembered. */
  readonly names: number;
}

export interface NameLookupsDeps {
  readonly clock: Pick<Clock, 'elapsedMs'>;
  /**
   * Resolves to the addresses of a name; else rejects with a `code`, which is {@link timedOut} when
   * no name server has answered within the time.
   */
  readonly resolve: (name: string, timeoutMs: number) => Promise<readonly string[]>;
  readonly limits: NameLimits;
}

export interface NameLimits {
  /** By how long the lookups of a name take, quickest first; the last one takes all that are slower. */
  readonly classes: readonly LookupClass[];
  /** The index of the class of names that were never looked up. */
  readonly unknownClass: number;
  /** A lookup of the last class has this long. */
  readonly timeoutMs: number;
  /** Addresses are valid this long, failures that long. */
  readonly keptMs: number;
  readonly failureKeptMs: number;
  /** Addresses this old are used while they are refreshed, or cannot be. */
  readonly usableMs: number;
  /** Names remembered; those looked up longest ago are forgotten first. */
  readonly namesMax: number;
}

/**
 * Names whose lookups take about as long. A name falls by one class after each quicker lookup and
 * rises at once after a slower one.
 */
export interface LookupClass {
  /**
   * Lookups of this class take less. One that takes longer gives its place up and waits for one of the
   * next class; but none has less time than that of an unknown name.
   */
  readonly belowMs: number;
  /**
   * How many may be under way in all, and of one owner. The numbers include the classes that follow,
   * so what they leave is kept for quicker names.
   */
  readonly atOnce: number;
  readonly atOncePerOwner: number;
}

/** The code of a lookup that took too long. */
export const timedOut = 'ETIMEOUT';

/** Returns true when the name does not exist or has no such address: no other server says more. */
export function isDefinite(code: string): boolean {
  return code === 'ENOTFOUND' || code === 'ENODATA';
}

/** Every so many starts the classes are served the other way round, so that none waits forever. */
const reverseEvery = 8;

/** See {@link NameLookups}. No I/O of its own: `resolve` and the clock are passed in. */
export function createNameLookups(deps: NameLookupsDeps): NameLookups {
  return new FairLookups(deps);
}

/** One name: its last answers, and the lookup that waits or is under way. */
interface Name {
  readonly name: string;
  found: Dated | undefined;
  /** Since then. */
  failed: Dated | undefined;
  /** An index of {@link NameLimits.classes}. */
  class: number;
  isUnderWay: boolean;
  /** One of its requests is. */
  isFirst: boolean;
  /** In whose queues it waits. */
  readonly owners: Set<Owner>;
  requests: Request[];
}

interface Dated {
  readonly answer: NameAnswer;
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

/** What an owner has of a class. */
interface OwnClass {
  readonly waiting: Map<string, Name>;
  /** Stands in the turns of the class. */
  isInTurns: boolean;
}

class FairLookups implements NameLookups {
  readonly #deps: NameLookupsDeps;
  /** Names that wait or are under way. */
  readonly #asked = new Map<string, Name>();
  /** The others, in the order of their last lookup. */
  readonly #remembered = new Map<string, Name>();
  /** Those with something that waits or is under way. */
  readonly #owners = new Map<LookupOwner, Owner>();
  /** Of each class: owners with a name that waits, in turns. */
  readonly #turns: readonly Deque<Owner>[];
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
    this.#turns = classes.map(() => new Deque());
    this.#underWay = classes.map(() => 0);
    this.#quickestFirst = [...classes.keys()];
    this.#slowestFirst = this.#quickestFirst.toReversed();
  }

  usable(text: string): NameAnswer | undefined {
    const { usableMs, failureKeptMs } = this.#deps.limits;
    return this.#answer(text, usableMs, failureKeptMs);
  }

  last(text: string): NameAnswer | undefined {
    const { usableMs } = this.#deps.limits;
    return this.#answer(text, usableMs, usableMs);
  }

  isReady(text: string): boolean {
    return this.usable(text) !== undefined;
  }

  prepare(owner: LookupOwner, text: string): true | Promise<void> {
    const { keptMs, failureKeptMs } = this.#deps.limits;
    if (this.isReady(text)) {
      // Called for each attempt, so nothing is added to a lookup that nobody has to wait for.
      const isValid = this.#answer(text, keptMs, failureKeptMs) !== undefined;
      if (!isValid && !this.#asked.has(text)) this.find(owner, text, { ended: ignore });
      return true;
    }
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
    this.#startWhatMay();
  }

  count(): LookupCount {
    return {
      waiting: this.#waiting,
      underWay: sumOf(this.#underWay),
      names: this.#remembered.size,
    };
  }

  #answer(text: string, foundMs: number, failedMs: number): NameAnswer | undefined {
    const name = this.#remembered.get(text) ?? this.#asked.get(text);
    if (name === undefined) return undefined;
    const nowMs = this.#deps.clock.elapsedMs();
    if (name.found !== undefined && nowMs - name.found.atMs < foundMs) return name.found.answer;
    if (name.failed !== undefined && nowMs - name.failed.atMs < failedMs) return name.failed.answer;
    return undefined;
  }

  #nameOf(text: string): Name {
    const asked = this.#asked.get(text);
    if (asked !== undefined) return asked;
    const name = this.#remembered.get(text) ?? newName(text, this.#deps.limits.unknownClass);
    this.#remembered.delete(text);
    this.#asked.set(text, name);
    return name;
  }

  #ownerOf(id: LookupOwner): Owner {
    const known = this.#owners.get(id);
    if (known !== undefined) return known;
    const { classes } = this.#deps.limits;
    const owner: Owner = {
      id,
      classes: classes.map(() => ({ waiting: new Map(), isInTurns: false })),
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
    this.#takeTurns(owner, name.class);
    if (!name.isFirst || waiting.size === 1) return;
    // Rare, and a Map has no front to add to.
    const all = [...waiting.values()].toSorted((a, b) => Number(b.isFirst) - Number(a.isFirst));
    waiting.clear();
    for (const each of all) waiting.set(each.name, each);
  }

  #takeTurns(owner: Owner, index: number): void {
    const own = owner.classes[index];
    if (own === undefined || own.isInTurns || own.waiting.size === 0) return;
    own.isInTurns = true;
    this.#turns[index]?.push(owner);
  }

  #startWhatMay(): void {
    while (this.#startOne());
  }

  #startOne(): boolean {
    const isReverse = this.#starts % reverseEvery === reverseEvery - 1;
    const order = isReverse ? this.#slowestFirst : this.#quickestFirst;
    for (const each of order) {
      if (!hasPlace(this.#underWay, this.#atOnce, each)) continue;
      const owner = this.#nextOwner(each);
      const next = owner?.classes[each]?.waiting.values().next().value;
      if (owner === undefined || next === undefined) continue;
      this.#start(owner, next);
      return true;
    }
    return false;
  }

  /** At most as many owners are passed over as have lookups under way. */
  #nextOwner(index: number): Owner | undefined {
    const turns = this.#turns[index];
    for (let left = turns?.length ?? 0; left > 0; left -= 1) {
      const owner = turns?.shift();
      const own = owner?.classes[index];
      if (owner === undefined || own === undefined) return undefined;
      own.isInTurns = false;
      this.#takeTurns(owner, index);
      // None waits when its names were started for another owner who waited for them as well.
      if (own.waiting.size === 0) continue;
      if (hasPlace(owner.underWay, this.#atOncePerOwner, index)) return owner;
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
    const answer = await this.#ask(name.name, timeLimitOf(present, limits));
    this.#count(owner, present, -1);
    name.isUnderWay = false;
    const isPutBack = !isLast && answer.kind === 'failed' && answer.code === timedOut;
    const tookMs = clock.elapsedMs() - begunMs;
    const taken = limits.classes.findIndex(({ belowMs }) => tookMs < belowMs);
    name.class = Math.max(taken, present + (isPutBack ? 1 : -1));
    const { requests } = name;
    if (isPutBack) for (const each of requests) this.#enqueue(this.#ownerOf(each.owner), name);
    else this.#remember(name, answer);
    this.#forget(owner);
    this.#startWhatMay();
    if (isPutBack) return;
    const known = this.usable(name.name) ?? answer;
    for (const each of requests) each.ended(known);
  }

  async #ask(name: string, timeoutMs: number): Promise<NameAnswer> {
    try {
      const addresses = await this.#deps.resolve(name, timeoutMs);
      if (addresses.length > 0) return { kind: 'found', addresses };
      return { kind: 'failed', code: 'ENODATA' };
    } catch (error) {
      const { code } = Object(error) as { readonly code?: unknown };
      return { kind: 'failed', code: typeof code === 'string' ? code : '' };
    }
  }

  #remember(name: Name, answer: NameAnswer): void {
    const { namesMax } = this.#deps.limits;
    const dated: Dated = { answer, atMs: this.#deps.clock.elapsedMs() };
    name.failed = answer.kind === 'failed' ? dated : undefined;
    if (answer.kind === 'found') name.found = dated;
    // A name server that could not say does not make the addresses of before wrong.
    else if (isDefinite(answer.code)) name.found = undefined;
    name.isFirst = false;
    name.requests = [];
    this.#asked.delete(name.name);
    this.#remembered.set(name.name, name);
    for (const oldest of this.#remembered.keys()) {
      if (this.#remembered.size <= namesMax) break;
      this.#remembered.delete(oldest);
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

/** Both arrays are by class; each maximum is for its class and those that follow. */
function hasPlace(underWay: readonly number[], max: readonly number[], index: number): boolean {
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
