import type { Clock, Timer } from '../../core/clock.ts';
import type { Shortage } from '../../core/retry.ts';
import type { Resource } from '../../core/shortage.ts';

/** A shortage began, or has been over for a while. */
export interface ShortageChange {
  readonly resource: Resource;
  readonly code: string;
  readonly isOver: boolean;
}

/** The shortages of this node. What needs the resource waits; what does not goes on. */
export interface Shortages {
  /** Holds back what needs a new connection. */
  readonly connections: SlowStart;
  /** Holds back name lookups. */
  readonly names: SlowStart;
  /** Notes a shortage; returns how long to wait before the next try. */
  noted(this: void, shortage: Pick<Shortage, 'code'>): number;
  /** Returns the resources that are short now. */
  present(): readonly Resource[];
  /** Calls `listener` with each change from now on. */
  watch(listener: (change: ShortageChange) => void): void;
  close(): void;
}

/** Lets few tries begin after a shortage, then more and more. */
export interface SlowStart {
  /** Whether a try may begin now. */
  readonly isOpen: boolean;
  /** Resolves when a try may begin, for callers that wait in turns: it may be closed again then. */
  wait(): Promise<void>;
  /** Notes that a try began. */
  began(): void;
}

/** The code of a lookup for which no name server of this machine was available. */
export const noNameServer = 'ENAMESERVER';

/** The code of an attempt whose thread ended or could not start. */
export const noThread = 'ENOTHREAD';

/** The wait after the first failure, doubled with each further one up to the last. */
const waitMs = { first: 100, last: 5000 };

/** After the wait the tries that may begin double in each step, until they are not bounded any more. */
const stepMs = 100;
const boundedTries = 4096;

/** A shortage is over after so long without a failure. */
const quietMs = 10_000;

export function createShortages({ clock }: { readonly clock: Clock }): Shortages {
  const connections = new Recovery(clock);
  const names = new Recovery(clock);
  const present = new Map<Resource, Timer>();
  const listeners: ((change: ShortageChange) => void)[] = [];
  const emit = (change: ShortageChange): void => listeners.forEach((listener) => listener(change));
  return {
    connections,
    names,
    noted: ({ code }) => {
      const resource = resourceOf(code);
      const known = present.get(resource);
      known?.cancel();
      const end = clock.after(quietMs, () => {
        present.delete(resource);
        emit({ resource, code, isOver: true });
      });
      present.set(resource, end);
      if (known === undefined) emit({ resource, code, isOver: false });
      if (resource === 'threads') return waitMs.first;
      return (resource === 'name servers' ? names : connections).close();
    },
    present: () => [...present.keys()],
    watch: (listener) => void listeners.push(listener),
    close: () => {
      for (const end of present.values()) end.cancel();
      connections.end();
      names.end();
    },
  };
}

function resourceOf(code: string): Resource {
  if (code === 'EMFILE' || code === 'ENFILE') return 'descriptors';
  if (code === 'EADDRNOTAVAIL') return 'ports';
  if (code === noThread) return 'threads';
  return code === noNameServer ? 'name servers' : 'memory';
}

class Recovery implements SlowStart {
  readonly #clock: Clock;
  /** How many tries may begin in this step; `undefined` while they are not bounded. */
  #tries: number | undefined;
  #left = 0;
  #waitMs = 0;
  #failedMs = -Infinity;
  #timer: Timer | undefined;
  #opened = Promise.withResolvers<void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isOpen(): boolean {
    return this.#tries === undefined || this.#left > 0;
  }

  wait(): Promise<void> {
    return this.isOpen ? Promise.resolve() : this.#opened.promise;
  }

  began(): void {
    if (this.#tries !== undefined) this.#left -= 1;
  }

  /** Lets no try begin for a while; returns for how long. */
  close(): number {
    const nowMs = this.#clock.elapsedMs();
    // Tries that began together fail together.
    if (this.#tries === 0) return this.#waitMs;
    const isNew = nowMs - this.#failedMs > quietMs;
    this.#waitMs = isNew ? waitMs.first : Math.min(this.#waitMs * 2, waitMs.last);
    this.#failedMs = nowMs;
    this.#tries = 0;
    this.#left = 0;
    this.#after(this.#waitMs);
    return this.#waitMs;
  }

  end(): void {
    this.#timer?.cancel();
  }

  #after(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#clock.after(delayMs, () => {
      const tries = Math.max(1, (this.#tries ?? 0) * 2);
      this.#tries = tries > boundedTries ? undefined : tries;
      this.#left = tries;
      if (this.#tries !== undefined) this.#after(stepMs);
      const opened = this.#opened;
      this.#opened = Promise.withResolvers();
      opened.resolve();
    });
  }
}
