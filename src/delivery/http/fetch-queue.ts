import { Counts } from '../../core/counts.ts';
import { Deque } from '../../log/deque.ts';

/** The most fetches under way: of one endpoint for a tenant, for a tenant, and in total. */
export interface FetchLimits {
  readonly perEndpoint: number;
  readonly perTenant: number;
  readonly total: number;
}

/** A fetch, which never rejects. */
type Fetch = () => Promise<void>;

/**
 * Runs fetches within limits: the tenants in turns, and the endpoints of each. An endpoint that hangs
 * delays the fetches from itself.
 */
export class FetchQueue {
  readonly #limits: FetchLimits;
  /** Waiting fetches by tenant and endpoint; of both the first one is next. */
  readonly #waiting = new Map<number, Map<string, Deque<Fetch>>>();
  readonly #ofEndpoints = new Counts<string>();
  readonly #ofTenants = new Counts<number>();

  constructor(limits: FetchLimits) {
    this.#limits = limits;
  }

  /** Runs `fetch` when it is its turn. */
  enqueue(tenant: number, endpoint: string, fetch: Fetch): void {
    const endpoints = this.#waiting.get(tenant) ?? new Map<string, Deque<Fetch>>();
    const queue = endpoints.get(endpoint) ?? new Deque<Fetch>();
    queue.push(fetch);
    endpoints.set(endpoint, queue);
    this.#waiting.set(tenant, endpoints);
    this.#start();
  }

  #start(): void {
    while (this.#ofTenants.total < this.#limits.total) if (!this.#startOne()) return;
  }

  #startOne(): boolean {
    const { perEndpoint, perTenant } = this.#limits;
    for (const [tenant, endpoints] of this.#waiting) {
      if (this.#ofTenants.of(tenant) >= perTenant) continue;
      for (const [endpoint, queue] of endpoints) {
        const key = `${tenant} ${endpoint}`;
        if (this.#ofEndpoints.of(key) >= perEndpoint) continue;
        const fetch = queue.shift();
        // Both go to the end.
        endpoints.delete(endpoint);
        if (queue.length > 0) endpoints.set(endpoint, queue);
        this.#waiting.delete(tenant);
        if (endpoints.size > 0) this.#waiting.set(tenant, endpoints);
        if (fetch !== undefined) void this.#run(tenant, key, fetch);
        return true;
      }
    }
    return false;
  }

  async #run(tenant: number, key: string, fetch: Fetch): Promise<void> {
    this.#ofTenants.add(tenant, 1);
    this.#ofEndpoints.add(key, 1);
    await fetch();
    this.#ofTenants.add(tenant, -1);
    this.#ofEndpoints.add(key, -1);
    this.#start();
  }
}
