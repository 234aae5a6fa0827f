/**
 * How soon an attempt is expected to end. `quick`: the stream's recent attempts were quick.
 * `probe`: the stream has no history and no other attempt under way. `slow`: all others.
 */
export type Expectation = 'quick' | 'probe' | 'slow';

/**
 * The part of the capacity for attempts that are not known to be quick. A quarter is reserved for
 * those that are, and half of that is open to probes: a stream without a history begins at once
 * although others hang.
 */
const unprovenPart = { probe: 7 / 8, slow: 3 / 4 } as const;

/** Slots and bytes of bodies, in use or to be used. */
class Usage {
  slots = 0;
  bytes = 0;
}

/** The usage of all attempts, and of those that are not known to be quick. */
class Account {
  readonly all = new Usage();
  readonly unproven = new Usage();
}

/** The usage of one tenant. */
export class Holding extends Account {
  readonly tenant: number;

  constructor(tenant: number) {
    super();
    this.tenant = tenant;
  }
}

/** The usage of one attempt: a slot, and the bytes of its body. */
export interface Slot {
  readonly holding: Holding;
  expectation: Expectation;
  bytes: number;
}

/**
 * Returns how much more of a capacity a tenant may take that holds `own`. A tenant alone may take
 * all. Where tenants share the capacity, none takes more than three times what it leaves: the first
 * gets up to three quarters, the next three quarters of the rest, and some is left for the last
 * (dynamic thresholds, Choudhury and Hahne, IEEE/ACM Transactions on Networking 6, 1998).
 */
export function roomFor(own: number, left: number, isShared: boolean): number {
  return isShared ? Math.floor((3 * left - own) / 4) : left;
}

/** The slots and body bytes of a node, and the share of each tenant. */
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

  /** Whether no tenant may begin an attempt. */
  get isFull(): boolean {
    const { slots, bytes } = this.#capacity;
    return this.slots >= slots || this.bytes >= bytes;
  }

  /** Returns whether the tenant may begin an attempt with a body of so many bytes. */
  admits(holding: Holding, expectation: Expectation, bytes: number): boolean {
    if (!this.#fits(this.#capacity, this.#used.all, holding.all, bytes)) return false;
    if (expectation === 'quick') return true;
    // Others may exceed this part: quick attempts that began to hang count in it.
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

  /** Updates the expectation or the size of the slot's attempt. */
  change(slot: Slot, update: Partial<Pick<Slot, 'expectation' | 'bytes'>>): void {
    this.#count(slot, -1);
    Object.assign(slot, update);
    this.#count(slot, 1);
  }

  #fits(capacity: Readonly<Usage>, used: Usage, own: Usage, bytes: number): boolean {
    return (
      this.#hasRoom(capacity.slots, used.slots, own.slots, 1) &&
      this.#hasRoom(capacity.bytes, used.bytes, own.bytes, bytes)
    );
  }

  #hasRoom(capacity: number, used: number, own: number, size: number): boolean {
    // An attempt larger than the whole capacity begins when there is no other.
    if (used === 0) return true;
    const left = capacity - used;
    // A tenant without usage may take all that is free.
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
