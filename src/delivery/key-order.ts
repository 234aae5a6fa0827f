import type { Millis } from '../core/clock.ts';
import { fieldNames } from '../core/field-path.ts';
import type { DeliveryOptions, LogEvent, Offset } from '../core/types.ts';
import { Deque } from '../log/deque.ts';
import type { KeyRows } from '../store/port/ownership.ts';
import type { Outcome, Settlement } from '../store/port/settlement.ts';
import type { WindowEntry } from './window.ts';

/** Rows of events that wait behind their keys, per stream; then it takes no other event. */
const blockedMax = 10_000;

/** Events in memory that wait behind their keys, per stream. */
const heldBackMax = 1000;

/** An event that was taken from the log and waits behind its key, or for a slot after that. */
export interface HeldBack<Attempt> extends WindowEntry {
  readonly event: LogEvent;
  readonly publishedAt: Millis;
  readonly key: string;
  /** Monotonic. */
  readonly sinceMs: number;
  /** It is sent, got a row, or was dropped. */
  isGone: boolean;
  /** Its attempt, once that has begun. */
  attempt: Attempt | undefined;
}

/** What is known of a key that is not free. */
interface KeyState<Attempt> {
  /** Of its event under way, until the outcome is in the store. */
  attempt: Attempt | undefined;
  /** A blocked row is being claimed, or was and is not sent yet. */
  isClaimed: boolean;
  /** A row of it waits for a retry, or for the end of its lease. */
  isHeld: boolean;
  /** Blocked rows in the store… */
  blocked: number;
  /** …and those that are not recorded yet. All are older than {@link waiting}. */
  recording: number;
  /** Open failures that block it. */
  failures: number;
  readonly waiting: Deque<HeldBack<Attempt>>;
  /** Its next event, or its oldest blocked row, may be sent. */
  ready: HeldBack<Attempt> | 'row' | undefined;
}

/**
 * Sends the events of a stream with the same key one after the other: the next one begins when the
 * outcome of the one before is in the store. So a new owner repeats at most the newest of each key.
 *
 * A key takes no memory unless an event of it is under way or has a row. The rows of a key come before
 * the events that wait in memory, and an event gets a row only when all before it have one or are
 * settled: a blocked row whose key nothing holds is the next to be sent, for a new owner as well.
 */
export class KeyOrder<Attempt extends Pick<WindowEntry, 'settled'>> {
  readonly #keys = new Map<string, KeyState<Attempt>>();
  /** The keys of the events in the queue of the runner. */
  readonly #queued = new Deque<string | undefined>();
  /** Events whose turn has come; those that are gone are void. */
  readonly #readyEvents = new Deque<HeldBack<Attempt>>();
  /** Keys with a blocked row whose turn has come; void where their state does not say so. */
  readonly #readyKeys = new Deque<string>();
  #tokens: readonly string[] | undefined;
  #blocks = false;
  /** Events in memory that wait behind their keys, or for a slot after that. */
  #heldBack = 0;
  #blocked = 0;
  #readyRows = 0;

  /** `queued`: the events in the queue of the runner, whose keys are not known. */
  constructor(queued: number) {
    for (let count = 0; count < queued; count += 1) this.#queued.push(undefined);
  }

  /** Where events have their key; `undefined` while only rows from before do. */
  get tokens(): readonly string[] | undefined {
    return this.#tokens;
  }

  /** Blocked rows that may be claimed. */
  get readyRows(): number {
    return this.#readyRows;
  }

  /** Whether another event may be taken from the log. */
  get hasRoom(): boolean {
    return this.#heldBack < heldBackMax && this.#blocked + this.#heldBack < blockedMax;
  }

  /** Whether the event at the front of the queue waits behind its key. */
  get isFrontBlocked(): boolean {
    const key = this.#queued.at(0);
    return key !== undefined && this.#keys.has(key);
  }

  /** Takes over the options, and what the store knows of the keys: all outcomes that it has. */
  load(delivery: DeliveryOptions | undefined, rows: readonly KeyRows[]): void {
    this.#tokens = delivery?.orderBy === undefined ? undefined : fieldNames(delivery.orderBy);
    this.#blocks = delivery?.onFailure === 'block';
    for (const state of this.#keys.values()) {
      if (state.ready === 'row') this.#unready(state);
      this.#setRows(state, { blocked: 0, held: false, failed: 0 });
    }
    for (const each of rows) this.#setRows(this.#stateOf(each.key), each);
    for (const key of this.#keys.keys()) this.#next(key);
  }

  /** Notes the key of an event that was added to the queue. */
  enqueued(key: string | undefined): void {
    this.#queued.push(key);
  }

  /** Returns the key of the event that leaves the queue. */
  dequeued(): string | undefined {
    return this.#queued.shift();
  }

  /** Holds back an event that has left the queue, as its key is not free. */
  holdBack(event: LogEvent, key: string, sinceMs: number): HeldBack<Attempt> {
    const { offset, publishedAt } = event;
    const fields = { offset, publishedAt, event, key, sinceMs, attempt: undefined };
    const held: HeldBack<Attempt> = { ...fields, settled: false, isGone: false };
    this.#heldBack += 1;
    this.#stateOf(key).waiting.push(held);
    this.#next(key);
    return held;
  }

  /** The next event that was held back and may be sent. */
  get readyEvent(): HeldBack<Attempt> | undefined {
    while (this.#readyEvents.at(0)?.isGone) this.#readyEvents.shift();
    return this.#readyEvents.at(0);
  }

  /** Removes {@link readyEvent}. */
  takeReady(): HeldBack<Attempt> | undefined {
    const held = this.readyEvent;
    if (held === undefined) return undefined;
    this.#unready(this.#stateOf(held.key));
    return this.#leave(held);
  }

  /** Notes that an attempt with the key has begun. */
  begun(key: string, attempt: Attempt): void {
    const state = this.#stateOf(key);
    state.attempt = attempt;
    state.isClaimed = false;
    state.isHeld = false;
  }

  /** Returns keys whose oldest blocked row is claimed now. */
  claim(take: number): string[] {
    const keys: string[] = [];
    while (keys.length < take) {
      const key = this.#readyKeys.shift();
      if (key === undefined) break;
      const state = this.#keys.get(key);
      if (state?.ready !== 'row') continue;
      this.#unready(state);
      state.isClaimed = true;
      keys.push(key);
    }
    return keys;
  }

  /** Notes that a blocked row of the key was claimed. */
  claimed(key: string): void {
    const state = this.#stateOf(key);
    if (state.blocked === 0) return;
    state.blocked -= 1;
    this.#blocked -= 1;
  }

  /** Whether an event of the key is under way, until its outcome is in the store. */
  isUnderWay(key: string): boolean {
    return this.#keys.get(key)?.attempt !== undefined;
  }

  /** Notes that no attempt begins for the claim: the row, if there is one, is leased. */
  returned(key: string): void {
    const state = this.#stateOf(key);
    state.isClaimed = false;
    state.isHeld = true;
  }

  /** Returns the attempt that needs a row before the event gets one: it is the one before. */
  attemptBefore({ key }: HeldBack<Attempt>): Attempt | undefined {
    const attempt = this.#keys.get(key)?.attempt;
    return attempt?.settled === false ? attempt : undefined;
  }

  /** Notes that an event gets a row: the oldest one of its key in memory. */
  block(held: HeldBack<Attempt>): void {
    const state = this.#stateOf(held.key);
    if (state.ready === held) this.#unready(state);
    else state.waiting.shift();
    this.#leave(held);
    state.recording += 1;
    this.#blocked += 1;
  }

  /** Takes over the outcomes of a settlement that is in the store. */
  settled({ outcomes }: Pick<Settlement, 'outcomes'>): void {
    for (const outcome of outcomes) if (outcome.orderKey !== undefined) this.#settle(outcome);
  }

  #settle(outcome: Outcome): void {
    const { orderKey: key = '', kind, result } = outcome;
    if (kind === 'redelivery') {
      if (result === 'delivered') this.#repaired(key);
    } else if (result === 'blocked') this.#becameRow(key);
    else if (result === 'retry') this.#retries(key);
    else if (result !== 'parked') this.#ended(key, result);
    else if (outcome.hasEnded) this.#retries(key);
  }

  /** Notes that the row of an event is in the store. */
  #becameRow(key: string): void {
    const state = this.#stateOf(key);
    state.recording -= 1;
    state.blocked += 1;
    this.#next(key);
  }

  /** Notes that the outcome of an attempt is in the store, and its row waits for a retry. */
  #retries(key: string): void {
    const state = this.#stateOf(key);
    state.attempt = undefined;
    state.isHeld = true;
  }

  /** Notes that the end of a first delivery is in the store. */
  #ended(key: string, end: 'delivered' | 'failed'): void {
    const state = this.#stateOf(key);
    state.attempt = undefined;
    state.isClaimed = false;
    state.isHeld = false;
    if (end === 'failed' && this.#blocks) state.failures += 1;
    this.#next(key);
  }

  /** Notes that an open failure was delivered. */
  #repaired(key: string): void {
    const state = this.#stateOf(key);
    state.failures = Math.max(0, state.failures - 1);
    this.#next(key);
  }

  /** Drops the events up to an offset, and returns them. */
  drop(upTo: Offset): HeldBack<Attempt>[] {
    const dropped: HeldBack<Attempt>[] = [];
    for (const [key, state] of this.#keys) {
      const { ready, waiting } = state;
      if (typeof ready === 'object' && ready.offset <= upTo) {
        this.#unready(state);
        dropped.push(this.#leave(ready));
      }
      for (let held = waiting.at(0); held && held.offset <= upTo; held = waiting.at(0)) {
        waiting.shift();
        dropped.push(this.#leave(held));
      }
      this.#next(key);
    }
    return dropped;
  }

  #stateOf(key: string): KeyState<Attempt> {
    const known = this.#keys.get(key);
    if (known !== undefined) return known;
    const state: KeyState<Attempt> = {
      attempt: undefined,
      isClaimed: false,
      isHeld: false,
      blocked: 0,
      recording: 0,
      failures: 0,
      waiting: new Deque(),
      ready: undefined,
    };
    this.#keys.set(key, state);
    return state;
  }

  #setRows(state: KeyState<Attempt>, { blocked, held, failed }: Omit<KeyRows, 'key'>): void {
    this.#blocked += blocked - state.blocked;
    state.blocked = blocked;
    state.isHeld = held;
    state.failures = failed;
  }

  /** Lets the next event of a key be sent if nothing is before it; forgets a key that is free. */
  #next(key: string): void {
    const state = this.#stateOf(key);
    const { attempt, isClaimed, isHeld, failures, blocked, recording, waiting, ready } = state;
    const isBusy = attempt !== undefined || isClaimed || isHeld || failures > 0;
    if (isBusy || ready !== undefined) return;
    if (blocked > 0) {
      state.ready = 'row';
      this.#readyRows += 1;
      this.#readyKeys.push(key);
      return;
    }
    if (recording > 0) return;
    state.ready = waiting.shift();
    if (state.ready === undefined) {
      this.#keys.delete(key);
      return;
    }
    this.#readyEvents.push(state.ready);
  }

  #unready(state: KeyState<Attempt>): void {
    if (state.ready === 'row') this.#readyRows -= 1;
    state.ready = undefined;
  }

  #leave(held: HeldBack<Attempt>): HeldBack<Attempt> {
    held.isGone = true;
    this.#heldBack -= 1;
    return held;
  }
}
