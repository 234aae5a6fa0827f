import { Deque } from './deque.ts';

/** The items of one tenant that wait for their turn. */
interface TenantQueue<T> {
  readonly tenant: number;
  readonly items: Deque<T>;
  /** It is in the round of tenants; false while it is held. */
  inRound: boolean;
}

/** What became of the item that a tenant's turn offered. */
export type Offer =
  /** It used the tenant's turn. */
  | 'taken'
  /** It needs no turn any more; the next item of the tenant is offered. */
  | 'dropped'
  /** The tenant may have nothing now; it waits until it is resumed. */
  | 'held'
  /** Nobody may have anything now; the round ends. */
  | 'full';

/**
 * Items of many tenants in turns: round robin over the tenants, and over the items of each, so that
 * a tenant with a thousand streams gets no more turns than one with a single stream. Every
 * operation takes constant time, amortized.
 */
export class FairQueue<T> {
  readonly #tenants = new Map<number, TenantQueue<T>>();
  readonly #round = new Deque<TenantQueue<T>>();
  /** Those that left the round; the first one has waited longest. */
  readonly #held = new Set<TenantQueue<T>>();
  #length = 0;

  /** Items of all tenants. */
  get length(): number {
    return this.#length;
  }

  /** Whether the tenant has items. */
  has(tenant: number): boolean {
    return this.#tenants.has(tenant);
  }

  push(tenant: number, item: T): void {
    const queue = this.#tenants.get(tenant) ?? this.#open(tenant);
    queue.items.push(item);
    this.#length += 1;
  }

  /** Offers the next items until one is taken; returns whether one was. */
  offerNext(offer: (item: T) => Offer): boolean {
    for (let queue = this.#round.shift(); queue !== undefined; queue = this.#round.shift()) {
      const answer = this.#offerOf(queue, offer);
      if (queue.items.length === 0) this.#tenants.delete(queue.tenant);
      else if (answer === 'held') this.#hold(queue);
      else this.#round.push(queue);
      if (answer === 'taken') return true;
      if (answer === 'full') return false;
    }
    return false;
  }

  /** The tenant may have something again. */
  resume(tenant: number): void {
    const queue = this.#tenants.get(tenant);
    if (queue !== undefined && !queue.inRound) this.#resume(queue);
  }

  /** Any of the tenants may have something again: resumes those that have waited longest. */
  resumeOldest(count: number): void {
    let left = count;
    for (const queue of this.#held) {
      if (left === 0) return;
      left -= 1;
      this.#resume(queue);
    }
  }

  /** Removes and returns all items. */
  clear(): T[] {
    const all: T[] = [];
    for (const { items } of this.#tenants.values()) {
      for (let item = items.shift(); item !== undefined; item = items.shift()) all.push(item);
    }
    this.#tenants.clear();
    this.#round.clear();
    this.#held.clear();
    this.#length = 0;
    return all;
  }

  #hold(queue: TenantQueue<T>): void {
    queue.inRound = false;
    this.#held.add(queue);
  }

  #resume(queue: TenantQueue<T>): void {
    queue.inRound = true;
    this.#held.delete(queue);
    this.#round.push(queue);
  }

  #open(tenant: number): TenantQueue<T> {
    const queue = { tenant, items: new Deque<T>(), inRound: true };
    this.#tenants.set(tenant, queue);
    this.#round.push(queue);
    return queue;
  }

  /** What cannot be taken now goes to the end: another item of the tenant may be smaller. */
  #offerOf(queue: TenantQueue<T>, offer: (item: T) => Offer): Offer {
    for (let item = queue.items.shift(); item !== undefined; item = queue.items.shift()) {
      this.#length -= 1;
      const answer = offer(item);
      if (answer === 'dropped') continue;
      if (answer !== 'taken') {
        queue.items.push(item);
        this.#length += 1;
      }
      return answer;
    }
    return 'dropped';
  }
}
