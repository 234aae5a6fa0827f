/**
 * How soon an attempt is expected to end. `quick`: the stream's recent attempts were; `probe`:
 * nothing is known of the stream, and it has no other attempt under way; `slow`: everything else.
 */
export type Expectation = 'quick' | 'probe' | 'slow';

/**
 * How much of the capacity attempts may use that are not known to be quick. A quarter is kept for
 * those that are, and half of that is open to probes: so that a stream without a history begins at
 * once although others hang.
 */
const unprovenPart = { probe: 7 / 8, slow: 3 / 4 } as const;

/** Slots and bytes of bodies, in use or to be used. */
class Usage {
  slots = 0;
  bytes = 0;
}

/** What attempts use: all of them, and those that are not known to be quick. */
class Account {
  readonly all = new Usage();
  readonly unproven = new Usage();
}

/** What one tenant uses. */
export class Holding extends Account {
  readonly tenant: number;

  constructor(tenant: number) {
    super();
    this.tenant = tenant;
  }
}

/** What one attempt occupies: a slot, and the bytes of its body. */
export interface Slot {
  readonly holding: Holding;
  expectation: Expectation;
  bytes: number;
}

/**
 * Returns how much more of a capacity a tenant may take that holds `own`. Where tenants share it,
 * none takes more than three times of what it leaves: one alone gets three quarters, the next three
 * quarters of the rest, and something is left for whoever comes last (dynamic thresholds, Choudhury
 * and Hahne, IEEE/ACM Transactions on Networking 6, 1998). A tenant alone may take all.
 */
export function roomFor(own: number, left: number, isShared: boolean): number {
  return isShared ? Math.floor((3 * left - own) / 4) : left;
}

/** The slots and body bytes of a node, and what each tenant may have of them. */
export class Shares {
  readonly #few: number;
  readonly #capacity: Readonly<Usage>;
  readonly #unproven: Readonly<Record<'probe' | 'slow', Readonly<Usage>>>;
  readonly #used = new Account();
  readonly #isShared: () => boolean;

  /**
   * @param few slots that each tenant has for streams that are not known to be quick
   * @param isShared returns whether several tenants have streams on this node
   */
  constructor(capacity: Readonly<Usage>, few: number, isShared: () => boolean) {
    this.#capacity = capacity;
    this.#few = few;
    this.#unproven = {
      probe: partOf(capacity, unprovenPart.probe),
      slow: partOf(capacity, unprovenPart.slow),
    };
    this.#isShared = isShared;
  }

  /** Slots in use. */
  get slots(): number {
    return this.#used.all.slots;
  }

  /** Bytes of bodies under way. */
  get bytes(): number {
    return this.#used.all.bytes;
  }

  /** Whether nobody may begin anything. */
  get isFull(): boolean {
    const { slots, bytes } = this.#capacity;
    return this.slots >= slots || this.bytes >= bytes;
  }

  /** Returns whether the tenant may begin an attempt with a body of so many bytes. */
  admits(holding: Holding, expectation: Expectation, bytes: number): boolean {
    if (!this.#fits(this.#capacity, this.#used.all, holding.all, bytes)) return false;
    if (expectation === 'quick') return true;
    // What others hold of this part may exceed it: quick attempts that began to hang count then.
    if (holding.unproven.slots < this.#few) return true;
    return this.#fits(this.#unproven[expectation], this.#used.unproven, holding.unproven, bytes);
  }

  /** Returns how many slots more the tenant may take for attempts that are expected to be quick. */
  room({ all }: Holding): number {
    return roomFor(all.slots, this.#capacity.slots - this.slots, this.#isShared());
  }

  take(holding: Holding, expectation: Expectation, bytes: number): Slot {
    const slot = { holding, expectation, bytes };
    this.#count(slot, 1);
    return slot;
  }

  release(slot: Slot): void {
    this.#count(slot, -1);
  }

  /** Changes what is known of the slot's attempt. */
  change(slot: Slot, known: Partial<Pick<Slot, 'expectation' | 'bytes'>>): void {
    this.#count(slot, -1);
    Object.assign(slot, known);
    this.#count(slot, 1);
  }

  #fits(capacity: Readonly<Usage>, used: Usage, own: Usage, bytes: number): boolean {
    return (
      this.#hasRoom(capacity.slots, used.slots, own.slots, 1) &&
      this.#hasRoom(capacity.bytes, used.bytes, own.bytes, bytes)
    );
  }

  #hasRoom(capacity: number, used: number, own: number, size: number): boolean {
    // What is larger than all there is goes when nothing else does.
    if (used === 0) return true;
    const left = capacity - used;
    // Whoever has nothing yet waits only for what is free.
    return size <= (own === 0 ? left : roomFor(own, left, this.#isShared()));
  }

  #count({ holding, expectation, bytes }: Slot, sign: 1 | -1): void {
    add(this.#used.all, sign, bytes);
    add(holding.all, sign, bytes);
    if (expectation === 'quick') return;
    add(this.#used.unproven, sign, bytes);
    add(holding.unproven, sign, bytes);
  }
}

function partOf({ slots, bytes }: Readonly<Usage>, part: number): Usage {
  return { slots: Math.max(1, Math.floor(slots * part)), bytes: Math.floor(bytes * part) };
}

function add(usage: Usage, sign: 1 | -1, bytes: number): void {
  usage.slots += sign;
  usage.bytes += sign * bytes;
}
