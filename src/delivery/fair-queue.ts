import { Deque } from '../log/deque.ts';

/** The waiting items of one tenant: untried ones first, then refused ones. */
class TenantQueue<T> {
  readonly tenant: number;
  readonly items = new Deque<T>();
  #refused = 0;
  /** Of the queue, when the last item was refused. */
  #term = 0;

  constructor(tenant: number) {
    this.tenant = tenant;
  }

  /** Items that were refused in this term. */
  refusedIn(term: number): number {
    return this.#term === term ? this.#refused : 0;
  }

  refuse(item: T, term: number): void {
    this.items.push(item);
    this.#refused = this.refusedIn(term) + 1;
    this.#term = term;
  }

  push(item: T): void {
    this.items.push(item);
    this.#refused = 0;
  }
}

/** The result of an offer. */
export type Offer =
  /** The item used the turn of its tenant. */
  | 'taken'
  /** The item does not wait any more; the next item of the tenant is offered. */
  | 'dropped'
  /** The item cannot be served now. */
  | 'refused';

/**
 * Round robin over tenants, and over the items of each: a tenant with a thousand streams gets no
 * more turns than one with a single stream.
 *
 * A refused item is offered again after {@link renew}, in its turn. One call offers few items, so
 * its cost does not depend on how many wait; {@link isUntried} is true while some were not offered.
 *
 * An offer may call every method: the queue is consistent without the item that is being offered. A
 * call offers at most as many items as wait when it begins, so it ends whatever its offers push.
 */
export class FairQueue<T> {
  readonly #tenants = new Map<number, TenantQueue<T>>();
  /** Each of them once. One that has become empty is removed when its turn comes. */
  readonly #round = new Deque<TenantQueue<T>>();
  #length = 0;
  /** Items that were not refused in this term. */
  #untried = 0;
  #term = 0;

  /** Items of all tenants. */
  get length(): number {
    return this.#length;
  }

  /** Whether items wait that were not refused since the last {@link renew}. */
  get isUntried(): boolean {
    return this.#untried > 0;
  }

  push(tenant: number, item: T): void {
    const queue = this.#queueOf(tenant);
    // The refused items of the tenant are offered again before this one.
    this.#untried += queue.refusedIn(this.#term) + 1;
    queue.push(item);
    this.#length += 1;
  }

  /** Makes refused items eligible again. */
  renew(): void {
    this.#term += 1;
    this.#untried = this.#length;
  }

  /** Offers up to `itemsMax` items until one is taken; returns whether one was. */
  offerNext(offer: (item: T) => Offer, itemsMax = Infinity): boolean {
    for (let left = Math.min(itemsMax, this.#length); left > 0 && this.isUntried; left -= 1) {
      const queue = this.#next();
      if (queue === undefined) return false;
      if (this.#offerOf(queue, offer) === 'taken') return true;
    }
    return false;
  }

  /** Removes and returns all items. */
  clear(): T[] {
    const all: T[] = [];
    for (const { items } of this.#tenants.values()) {
      for (let item = items.shift(); item !== undefined; item = items.shift()) all.push(item);
    }
    this.#tenants.clear();
    this.#round.clear();
    this.#length = 0;
    this.#untried = 0;
    return all;
  }

  #queueOf(tenant: number): TenantQueue<T> {
    const known = this.#tenants.get(tenant);
    if (known !== undefined) return known;
    const queue = new TenantQueue<T>(tenant);
    this.#tenants.set(tenant, queue);
    this.#round.push(queue);
    return queue;
  }

  /** Returns the queue of the next tenant with items, whose next turn is after those of the others. */
  #next(): TenantQueue<T> | undefined {
    for (let queue = this.#round.shift(); queue !== undefined; queue = this.#round.shift()) {
      if (queue.items.length > 0) {
        this.#round.push(queue);
        return queue;
      }
      this.#tenants.delete(queue.tenant);
    }
    return undefined;
  }

  /** Offers the tenant's untried items until one is not dropped. */
  #offerOf(queue: TenantQueue<T>, offer: (item: T) => Offer): Offer {
    for (let left = queue.items.length; left > 0; left -= 1) {
      if (queue.refusedIn(this.#term) >= queue.items.length) break;
      const item = queue.items.shift();
      if (item === undefined) break;
      this.#length -= 1;
      this.#untried -= 1;
      const result = offer(item);
      if (result === 'taken') return result;
      if (result === 'dropped') continue;
      // The offer may have emptied its queue, which is no part of the round then.
      this.#queueOf(queue.tenant).refuse(item, this.#term);
      this.#length += 1;
      return result;
    }
    return 'refused';
  }
}
