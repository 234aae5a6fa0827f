import type { Clock } from '../core/clock.ts';
import { Deque } from './deque.ts';

/** Who a lookup is charged to: a tenant's id, or the service itself. */
export type LookupOwner = number | 'system';

/** What a name resolved to. */
export type NameAnswer =
  | { readonly kind: 'found'; readonly addresses: readonly string[] }
  /** The name has no address, or no server could say; `code` is that of the resolver. */
  | { readonly kind: 'failed'; readonly code: string };

/** Looks names up within bounds, keeps what they resolved to, and shares it among all who ask. */
export interface NameLookups {
  /** Returns what a name resolved to, while that is valid. */
  kept(name: string): NameAnswer | undefined;
  /** Returns the same, and addresses that may still be used where a lookup would be in the way. */
  usable(name: string): NameAnswer | undefined;
  /**
   * Returns true when an attempt can begin: the name has a valid answer, or its lookup waits for a
   * place or is slow, and the addresses of before are usable. Otherwise begins or queues the lookup, and resolves
   * when it has ended; never rejects.
   */
  prepare(owner: LookupOwner, name: string): true | Promise<void>;
  /** Returns true when an attempt can begin with what is kept; starts no lookup. */
  isReady(name: string): boolean;
  /** Looks a name up, unless that is under way. */
  find(owner: LookupOwner, name: string, request: LookupRequest): void;
  count(): LookupCount;
}

export interface LookupRequest {
  /** Goes to the front of its owner's queue. */
  readonly first?: boolean;
  /** Called when the lookup has a place; within {@link NameLookups.find} when it has one. */
  readonly begun?: () => void;
  /** Called when it had to give its place up and waits for another one; `begun` is called again. */
  readonly putBack?: () => void;
  /** Called once, never within {@link NameLookups.find}. */
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
  /** Lookups at once: in all, of one owner. */
  readonly atOnce: Shares;
  readonly atOncePerOwner: Shares;
  /** A lookup that takes this long is slow: it gives its place up, and waits for one of slow names. */
  readonly quickMs: number;
  /** A lookup in a place of slow names has this long. */
  readonly timeoutMs: number;
  /** Addresses are valid this long, failures that long. */
  readonly keptMs: number;
  readonly failureKeptMs: number;
  /** Addresses this old are used where a lookup would have to wait for a place. */
  readonly usableMs: number;
  /** Names remembered; those looked up longest ago are forgotten first. */
  readonly namesMax: number;
}

/**
 * How many lookups of a class may be under way. The numbers include the classes that follow, so
 * what is left of `quick` is kept for names that are known to be quick.
 */
export type Shares = Readonly<Record<LookupClass, number>>;

/**
 * `quick`: recent lookups were. `new`: unknown, or quick again since a short while. `slow`: the last
 * lookup was slow or timed out.
 */
export type LookupClass = 'quick' | 'new' | 'slow';

/** The code of a lookup that took too long. */
export const timedOut = 'ETIMEOUT';

const classes: readonly LookupClass[] = ['quick', 'new', 'slow'];
const slowestFirst: readonly LookupClass[] = classes.toReversed();

/** Every so many starts the classes are served the other way round, so that none waits forever. */
const reverseEvery = 8;

/** A name that was slow is quick again after so many quick lookups in a row. */
const quickAgainAfter = 3;

/** See {@link NameLookups}. No I/O of its own: `resolve` and the clock are passed in. */
export function createNameLookups(deps: NameLookupsDeps): NameLookups {
  return new FairLookups(deps);
}

/** One name: its last answer, and the lookup that waits or is under way. */
interface Name {
  readonly name: string;
  answer: NameAnswer | undefined;
  answeredMs: number;
  class: LookupClass;
  /** Quick lookups since the last slow one. */
  quickInARow: number;
  /** A lookup was slow, and too few have been quick since. */
  wasSlow: boolean;
  isUnderWay: boolean;
  /** In whose queues it waits. */
  readonly owners: Set<Owner>;
  requests: Request[];
}

interface Request extends LookupRequest {
  readonly owner: LookupOwner;
}

interface Owner {
  readonly id: LookupOwner;
  readonly waiting: Record<LookupClass, Map<string, Name>>;
  readonly underWay: Record<LookupClass, number>;
  /** Stands in the turns of a class. */
  readonly inTurns: Record<LookupClass, boolean>;
}

class FairLookups implements NameLookups {
  readonly #deps: NameLookupsDeps;
  /** Names that wait or are under way. */
  readonly #asked = new Map<string, Name>();
  /** The others, in the order of their last lookup. */
  readonly #remembered = new Map<string, Name>();
  /** Those with something that waits or is under way. */
  readonly #owners = new Map<LookupOwner, Owner>();
  /** Owners with a name of the class that waits, in turns. */
  readonly #turns: Record<LookupClass, Deque<Owner>> = {
    quick: new Deque(),
    new: new Deque(),
    slow: new Deque(),
  };
  readonly #underWay = { quick: 0, new: 0, slow: 0 };
  #waiting = 0;
  #starts = 0;

  constructor(deps: NameLookupsDeps) {
    this.#deps = deps;
  }

  kept(text: string): NameAnswer | undefined {
    return this.#answer(text, this.#deps.limits.keptMs);
  }

  usable(text: string): NameAnswer | undefined {
    return this.#answer(text, this.#deps.limits.usableMs);
  }

  prepare(owner: LookupOwner, text: string): true | Promise<void> {
    if (this.kept(text) !== undefined) return true;
    const isUsable = this.usable(text) !== undefined;
    const asked = this.#asked.get(text);
    // Called for each attempt, so nothing is added to a lookup that nobody has to wait for.
    if (isUsable && asked !== undefined && isForLater(asked)) return true;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.find(owner, text, {
      putBack: () => this.usable(text) !== undefined && resolve(),
      ended: () => resolve(),
    });
    return isUsable && isForLater(this.#nameOf(text)) ? true : promise;
  }

  isReady(text: string): boolean {
    return this.kept(text) !== undefined;
  }

  find(ownerId: LookupOwner, text: string, request: LookupRequest): void {
    const name = this.#nameOf(text);
    name.requests.push({ ...request, owner: ownerId });
    if (name.isUnderWay) {
      request.begun?.();
      return;
    }
    this.#enqueue(this.#ownerOf(ownerId), name, request.first === true);
    this.#startWhatMay();
  }

  count(): LookupCount {
    const { quick, new: unknown, slow } = this.#underWay;
    return {
      waiting: this.#waiting,
      underWay: quick + unknown + slow,
      names: this.#remembered.size,
    };
  }

  #answer(text: string, foundMs: number): NameAnswer | undefined {
    const name = this.#remembered.get(text) ?? this.#asked.get(text);
    if (name?.answer === undefined) return undefined;
    const ageMs = this.#deps.clock.elapsedMs() - name.answeredMs;
    const validMs = name.answer.kind === 'found' ? foundMs : this.#deps.limits.failureKeptMs;
    return ageMs < validMs ? name.answer : undefined;
  }

  #nameOf(text: string): Name {
    const asked = this.#asked.get(text);
    if (asked !== undefined) return asked;
    const name = this.#remembered.get(text) ?? newName(text);
    this.#remembered.delete(text);
    this.#asked.set(text, name);
    return name;
  }

  #ownerOf(id: LookupOwner): Owner {
    const known = this.#owners.get(id);
    if (known !== undefined) return known;
    const owner: Owner = {
      id,
      waiting: { quick: new Map(), new: new Map(), slow: new Map() },
      underWay: { quick: 0, new: 0, slow: 0 },
      inTurns: { quick: false, new: false, slow: false },
    };
    this.#owners.set(id, owner);
    return owner;
  }

  #enqueue(owner: Owner, name: Name, first: boolean): void {
    const queue = owner.waiting[name.class];
    if (name.owners.size === 0) this.#waiting += 1;
    name.owners.add(owner);
    queue.set(name.name, name);
    this.#takeTurns(owner, name.class);
    if (!first || queue.size === 1) return;
    // Rare, and a Map has no front to add to.
    const others = [...queue.values()].filter((other) => other !== name);
    queue.clear();
    for (const each of [name, ...others]) queue.set(each.name, each);
  }

  #takeTurns(owner: Owner, lookupClass: LookupClass): void {
    if (owner.inTurns[lookupClass] || owner.waiting[lookupClass].size === 0) return;
    owner.inTurns[lookupClass] = true;
    this.#turns[lookupClass].push(owner);
  }

  #startWhatMay(): void {
    while (this.#startOne());
  }

  #startOne(): boolean {
    const order = this.#starts % reverseEvery === reverseEvery - 1 ? slowestFirst : classes;
    for (const each of order) {
      if (!hasPlace(this.#underWay, this.#deps.limits.atOnce, each)) continue;
      const owner = this.#nextOwner(each);
      const next = owner?.waiting[each].values().next().value;
      if (owner === undefined || next === undefined) continue;
      this.#start(owner, next);
      return true;
    }
    return false;
  }

  /** At most as many owners are passed over as have lookups under way. */
  #nextOwner(lookupClass: LookupClass): Owner | undefined {
    const turns = this.#turns[lookupClass];
    for (let left = turns.length; left > 0; left -= 1) {
      const owner = turns.shift();
      if (owner === undefined) return undefined;
      owner.inTurns[lookupClass] = false;
      this.#takeTurns(owner, lookupClass);
      // None waits when its names were started for another owner who waited for them as well.
      if (owner.waiting[lookupClass].size === 0) continue;
      if (hasPlace(owner.underWay, this.#deps.limits.atOncePerOwner, lookupClass)) return owner;
    }
    return undefined;
  }

  #start(owner: Owner, name: Name): void {
    const lookupClass = name.class;
    for (const each of name.owners) {
      each.waiting[lookupClass].delete(name.name);
      if (each !== owner) this.#forget(each);
    }
    name.owners.clear();
    name.isUnderWay = true;
    this.#starts += 1;
    this.#waiting -= 1;
    this.#underWay[lookupClass] += 1;
    owner.underWay[lookupClass] += 1;
    for (const { begun } of name.requests) begun?.();
    void this.#run(owner, name, lookupClass);
  }

  async #run(owner: Owner, name: Name, lookupClass: LookupClass): Promise<void> {
    const { clock, limits } = this.#deps;
    const begunMs = clock.elapsedMs();
    const answer = await this.#ask(
      name.name,
      lookupClass === 'slow' ? limits.timeoutMs : limits.quickMs,
    );
    this.#underWay[lookupClass] -= 1;
    owner.underWay[lookupClass] -= 1;
    name.isUnderWay = false;
    classify(name, clock.elapsedMs() - begunMs < limits.quickMs);
    const isPutBack =
      lookupClass !== 'slow' && answer.kind === 'failed' && answer.code === timedOut;
    const { requests } = name;
    for (const each of isPutBack ? requests : []) {
      each.putBack?.();
      this.#enqueue(this.#ownerOf(each.owner), name, each.first === true);
    }
    if (!isPutBack) this.#remember(name, answer);
    this.#forget(owner);
    this.#startWhatMay();
    for (const each of isPutBack ? [] : requests) each.ended(answer);
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
    name.answer = answer;
    name.answeredMs = this.#deps.clock.elapsedMs();
    name.requests = [];
    this.#asked.delete(name.name);
    this.#remembered.set(name.name, name);
    for (const oldest of this.#remembered.keys()) {
      if (this.#remembered.size <= namesMax) break;
      this.#remembered.delete(oldest);
    }
  }

  #forget(owner: Owner): void {
    const isIdle = classes.every(
      (each) => owner.waiting[each].size === 0 && owner.underWay[each] === 0,
    );
    if (isIdle) this.#owners.delete(owner.id);
  }
}

/** It has no place, or had to give its first one up: an answer is not to be expected soon. */
function isForLater({ isUnderWay, class: present }: Name): boolean {
  return !isUnderWay || present === 'slow';
}

function classify(name: Name, isQuick: boolean): void {
  name.quickInARow = isQuick ? name.quickInARow + 1 : 0;
  name.wasSlow = name.quickInARow < (name.wasSlow ? quickAgainAfter : 1);
  name.class = isQuick ? (name.wasSlow ? 'new' : 'quick') : 'slow';
}

function newName(name: string): Name {
  return {
    name,
    answer: undefined,
    answeredMs: 0,
    class: 'new',
    quickInARow: 0,
    wasSlow: false,
    isUnderWay: false,
    owners: new Set(),
    requests: [],
  };
}

function hasPlace(
  underWay: Readonly<Record<LookupClass, number>>,
  max: Shares,
  lookupClass: LookupClass,
): boolean {
  const slow = underWay.slow;
  const unproven = slow + underWay.new;
  if (unproven + underWay.quick >= max.quick) return false;
  if (lookupClass === 'quick') return true;
  return unproven < max.new && (lookupClass === 'new' || slow < max.slow);
}
