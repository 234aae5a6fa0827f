import type { InspectedRequest, InspectorAnswer, InspectorMemory } from '../../core/inspector.ts';
import { streamKeyOf } from '../../core/stream-key.ts';
import type { StreamRef } from '../../core/types.ts';

/** The bounds on the memory of inspectors; the numbers are in `settings/network.ts`. */
export interface InspectorLimits {
  /** Requests of one stream, by count, by bytes and by age; older ones are dropped. */
  readonly requestsMax: number;
  readonly bytesMax: number;
  readonly keptMs: number;
  /** Bytes of all streams: the tenant with most of them loses those of its least used stream. */
  readonly totalBytesMax: number;
}

/** The requests of the inspectors of all streams, in memory. Times are monotonic milliseconds. */
export interface InspectorRings extends InspectorMemory {
  /** Adds a request, which its sender completes with the result. */
  add(stream: StreamRef, request: InspectedRequest, elapsedMs: number): void;
  /** Returns the answer to a request that arrives now; `undefined` for the usual one. */
  takeAnswer(stream: StreamRef): InspectorAnswer | undefined;
  /** Drops everything about a stream. */
  forget(stream: StreamRef): void;
  /** Drops requests that are too old: of one stream, or of all. */
  expire(elapsedMs: number, stream?: StreamRef): void;
  /** Returns the streams in memory. */
  streams(): readonly StreamRef[];
  /** Returns the bytes of all streams. */
  bytes(): number;
}

interface Entry {
  readonly request: InspectedRequest;
  readonly bytes: number;
  readonly atMs: number;
}

interface Ring {
  readonly stream: StreamRef;
  /** Oldest first. */
  readonly entries: Entry[];
  bytes: number;
  answer: InspectorAnswer | undefined;
}

/** Bytes of a stream and of a request besides its texts, about. */
const overheadBytes = 1024;

/** Creates the memory, which is empty. */
export function createInspectorRings(limits: InspectorLimits): InspectorRings {
  return new Rings(limits);
}

class Rings implements InspectorRings {
  readonly #limits: InspectorLimits;
  /** Least recently used first. */
  readonly #rings = new Map<string, Ring>();
  readonly #tenantBytes = new Map<number, number>();
  #bytes = 0;

  constructor(limits: InspectorLimits) {
    this.#limits = limits;
  }

  has(stream: StreamRef): boolean {
    return this.#rings.has(streamKeyOf(stream));
  }

  read(stream: StreamRef): ReturnType<InspectorMemory['read']> {
    const ring = this.#rings.get(streamKeyOf(stream));
    const requests = ring?.entries.map(({ request }) => request).toReversed() ?? [];
    return { requests, answer: ring?.answer };
  }

  setAnswer(stream: StreamRef, answer: InspectorAnswer): void {
    this.#use(stream).answer = answer;
    this.#fit();
  }

  takeAnswer(stream: StreamRef): InspectorAnswer | undefined {
    const ring = this.#rings.get(streamKeyOf(stream));
    const answer = ring?.answer;
    if (ring === undefined || answer === undefined) return undefined;
    const times = answer.times - 1;
    ring.answer = times > 0 ? { ...answer, times } : undefined;
    return answer;
  }

  add(stream: StreamRef, request: InspectedRequest, elapsedMs: number): void {
    const { requestsMax, bytesMax } = this.#limits;
    const ring = this.#use(stream);
    const entry = { request, bytes: bytesOf(request), atMs: elapsedMs };
    ring.entries.push(entry);
    this.#count(ring, entry.bytes);
    // The newest request stays, however large it is: the size of events is bounded.
    while (ring.entries.length > requestsMax || (ring.bytes > bytesMax && ring.entries.length > 1))
      this.#dropOldest(ring);
    this.#fit();
  }

  forget(stream: StreamRef): void {
    const ring = this.#rings.get(streamKeyOf(stream));
    if (ring !== undefined) this.#drop(ring);
  }

  expire(elapsedMs: number, stream?: StreamRef): void {
    const one = stream && this.#rings.get(streamKeyOf(stream));
    const rings = stream === undefined ? this.#rings.values() : one === undefined ? [] : [one];
    for (const ring of rings) {
      const isOld = (entry: Entry | undefined): boolean =>
        entry !== undefined && entry.atMs <= elapsedMs - this.#limits.keptMs;
      while (isOld(ring.entries[0])) this.#dropOldest(ring);
      if (ring.entries.length === 0 && ring.answer === undefined) this.#drop(ring);
    }
  }

  streams(): readonly StreamRef[] {
    return [...this.#rings.values()].map(({ stream }) => stream);
  }

  bytes(): number {
    return this.#bytes;
  }

  /** Returns the ring of a stream, which becomes the most recently used one. */
  #use(stream: StreamRef): Ring {
    const key = streamKeyOf(stream);
    const known = this.#rings.get(key);
    this.#rings.delete(key);
    const ring: Ring = known ?? { stream, entries: [], bytes: 0, answer: undefined };
    this.#rings.set(key, ring);
    if (known === undefined) this.#count(ring, overheadBytes);
    return ring;
  }

  #count(ring: Ring, bytes: number): void {
    const { tenant } = ring.stream;
    ring.bytes += bytes;
    this.#bytes += bytes;
    const ofTenant = (this.#tenantBytes.get(tenant) ?? 0) + bytes;
    if (ofTenant === 0) this.#tenantBytes.delete(tenant);
    else this.#tenantBytes.set(tenant, ofTenant);
  }

  #dropOldest(ring: Ring): void {
    const oldest = ring.entries.shift();
    if (oldest !== undefined) this.#count(ring, -oldest.bytes);
  }

  #drop(ring: Ring): void {
    this.#rings.delete(streamKeyOf(ring.stream));
    this.#count(ring, -ring.bytes);
  }

  /** Drops streams until the memory is within its bound. */
  #fit(): void {
    while (this.#bytes > this.#limits.totalBytesMax) {
      const [largest] = [...this.#tenantBytes].toSorted((one, other) => other[1] - one[1]);
      const ring = [...this.#rings.values()].find(({ stream }) => stream.tenant === largest?.[0]);
      if (ring === undefined) return;
      this.#drop(ring);
    }
  }
}

function bytesOf({ path, headers, body }: InspectedRequest): number {
  const lengths = [path, body, ...headers].map((text) => Buffer.byteLength(text));
  return lengths.reduce((sum, length) => sum + length, overheadBytes);
}
