import type { Clock } from '../core/clock.ts';
import type { LogStore, Node, OwnedStream, OwnershipStore, StreamRef } from '../store/port.ts';
import type { Claims } from './claims.ts';
import type { Due } from './due.ts';
import type { Feed } from './feed.ts';
import type { Lane, Patience } from './patience.ts';
import type { DeliveryReport } from './report.ts';
import type { Rota } from './rota.ts';
import { Runner } from './runner.ts';
import type { Sender } from './sender.ts';
import type { DeliverySettings } from './settings.ts';
import type { Settler } from './settler.ts';
import { Tail } from './tail.ts';

/** Streams in one command to the store. */
const chunk = 256;

/** Which streams this node works for, and how they are now. */
export interface Ownership {
  readonly runners: ReadonlyMap<string, Runner>;
  readonly tails: ReadonlyMap<number, Tail<Runner>>;
  /** Whether streams are being claimed, read again or given up. */
  readonly isBusy: boolean;
  /** Claims streams that are free. */
  claim(): void;
  /** A stream was created, changed or deleted, or got rows: nothing of it begins until it is read. */
  changed(ref: StreamRef): void;
  /** Reads a runner's stream again. */
  look(runner: Runner): void;
  /** The runner's stream is not this node's any more; what is under way is cut off. */
  lose(runner: Runner): void;
  /** Gives a disabled stream up once it has nothing left to send. */
  rest(runner: Runner): void;
  /** Writes the cursors of runners that passed events without a match. */
  raise(runners: readonly Runner[]): Promise<void>;
  /** Gives every stream up, with its cursor. */
  releaseAll(): Promise<void>;
  /** Claims no stream any more. */
  close(): void;
}

export interface OwnershipDeps {
  readonly ownership: OwnershipStore;
  readonly log: Pick<LogStore, 'head'>;
  readonly node: Node;
  readonly clock: Clock;
  readonly lane: Lane;
  readonly patience: Patience;
  readonly settings: Pick<DeliverySettings, 'tailEventsMax' | 'tailBytesMax'>;
  readonly settler: Pick<Settler, 'settleNow'>;
  readonly feed: Pick<Feed, 'fill' | 'empty'>;
  readonly due: Pick<Due, 'note' | 'forget'>;
  readonly claims: Pick<Claims, 'resume'>;
  readonly sender: Pick<Sender, 'cutOff'>;
  readonly rota: Pick<Rota, 'tell' | 'pump'>;
  readonly report: (event: DeliveryReport) => void;
}

/** Everything here that asks the store has the lane: no result is on its way there meanwhile. */
export function createOwnership(deps: OwnershipDeps): Ownership {
  const { ownership, node, clock, patience } = deps;
  const runners = new Map<string, Runner>();
  const tails = new Map<number, Tail<Runner>>();
  const stale = new Set<Runner>();
  /** Announced while streams were claimed: the answer may be older than that. */
  const announced = new Set<string>();
  let atWork = 0;
  let claimPlanned = false;
  let lookPlanned = false;
  let closed = false;

  const inLane = async (work: () => Promise<void>): Promise<void> => {
    atWork += 1;
    await deps.lane(work);
    atWork -= 1;
    deps.rota.pump();
  };

  // Claiming

  const claim = (): void => {
    if (claimPlanned || closed) return;
    claimPlanned = true;
    void inLane(claimSome);
  };
  const claimSome = async (): Promise<void> => {
    claimPlanned = false;
    announced.clear();
    if (closed) return;
    const claimed = await patience.keepTrying(() => ownership.claim(node, chunk, clock.now()));
    for (const owned of claimed) await adopt(owned);
    for (const key of announced) look(runners.get(key));
    if (claimed.length < chunk) return;
    // The rest after a moment, as others of the process want their turn.
    await pause(clock);
    claim();
  };
  const adopt = async (owned: OwnedStream): Promise<void> => {
    const { tenant, id } = owned.stream;
    const tail = tails.get(tenant) ?? (await openTail(tenant));
    const runner = new Runner(owned, tail);
    const former = runners.get(keyOf(tenant, id));
    if (former !== undefined) lose(former);
    runners.set(keyOf(tenant, id), runner);
    deps.report({ kind: 'stream_owned', tenant, stream: id, cursor: owned.cursor });
    wake(runner, owned);
  };
  /** It hears of events from now on; the head is asked for afterwards, so that none is missed. */
  const openTail = async (tenant: number): Promise<Tail<Runner>> => {
    const tail = new Tail<Runner>(deps.settings, 0);
    tails.set(tenant, tail);
    const head = await patience.keepTrying(() => deps.log.head(tenant));
    if (head > tail.head) tail.skipTo(head);
    return tail;
  };
  const wake = (runner: Runner, owned: OwnedStream): void => {
    runner.state = 'active';
    deps.due.note(runner, owned.nextDueAt);
    deps.claims.resume(runner);
    deps.feed.fill(runner);
    deps.rota.tell(runner);
  };

  // Looking again

  const look = (runner: Runner | undefined): void => {
    if (runner === undefined || runner.state === 'gone') return;
    runner.state = 'stale';
    runner.changes += 1;
    runner.unfollow();
    stale.add(runner);
    planLook();
  };
  const planLook = (): void => {
    if (lookPlanned || stale.size === 0) return;
    lookPlanned = true;
    void inLane(lookAtSome);
  };
  const lookAtSome = async (): Promise<void> => {
    lookPlanned = false;
    await deps.settler.settleNow();
    const some = [...stale].slice(0, chunk);
    const changes = some.map((runner) => runner.changes);
    for (const runner of some) stale.delete(runner);
    const refs = some.map(({ tenant, id }) => ({ tenant, stream: id }));
    const answers = await patience.keepTrying(() => ownership.owned(node, refs, clock.now()));
    const found = new Map(answers.map((owned) => [keyOfOwned(owned), owned]));
    some.forEach((runner, index) => {
      // Announced again meanwhile: the answer may be older than that.
      if (runner.changes === changes[index]) refresh(runner, found.get(keyOfRunner(runner)));
    });
    if (stale.size === 0) return;
    await pause(clock);
    planLook();
  };
  const refresh = (runner: Runner, owned: OwnedStream | undefined): void => {
    if (owned === undefined || owned.epoch !== runner.epoch) {
      lose(runner);
      claim();
      return;
    }
    if (owned.stream.version !== runner.stream.version) deps.feed.empty(runner);
    runner.update(owned);
    wake(runner, owned);
    rest(runner);
  };

  // Leaving

  const lose = (runner: Runner): void => {
    forget(runner);
    deps.sender.cutOff(runner);
    deps.report({ kind: 'stream_lost', tenant: runner.tenant, stream: runner.id });
  };
  const forget = (runner: Runner): void => {
    runner.state = 'gone';
    runner.changes += 1;
    runner.unfollow();
    runners.delete(keyOfRunner(runner));
    stale.delete(runner);
    deps.feed.empty(runner);
    deps.due.forget(runner);
    deps.claims.resume(runner);
  };
  const rest = (runner: Runner): void => {
    if (!isDone(runner)) return;
    void inLane(async () => {
      if (!isDone(runner) || closed) return;
      const cursor = runner.raise();
      forget(runner);
      await patience.keepTrying(() => ownership.release(node, [cursor]));
      deps.report({ kind: 'stream_lost', tenant: runner.tenant, stream: runner.id });
      // A redelivery may have come just before.
      claim();
    });
  };
  const raise = (some: readonly Runner[]): Promise<void> =>
    inLane(async () => {
      const present = some.filter((runner) => runner.state !== 'gone');
      const cursors = present.map((runner) => runner.raise());
      await patience.keepTrying(() => ownership.raiseCursors(cursors));
      cursors.forEach(({ cursor }, index) => present[index]?.window.commit(cursor));
    });
  const releaseAll = async (): Promise<void> => {
    const all = [...runners.values()];
    for (const runner of all) forget(runner);
    for (let index = 0; index < all.length; index += chunk) {
      const cursors = all.slice(index, index + chunk).map((runner) => runner.raise());
      await patience.keepTrying(() => ownership.release(node, cursors));
    }
  };

  return {
    runners,
    tails,
    get isBusy() {
      return atWork > 0;
    },
    claim,
    changed: ({ tenant, stream }) => {
      const key = keyOf(tenant, stream);
      const runner = runners.get(key);
      if (runner !== undefined) return look(runner);
      announced.add(key);
      claim();
    },
    look,
    lose,
    rest,
    raise,
    releaseAll: () => inLane(releaseAll),
    close: () => {
      closed = true;
    },
  };
}

function isDone(runner: Runner): boolean {
  return (
    runner.state === 'active' &&
    !runner.enabled &&
    !runner.dueWaits &&
    runner.nextDueAt === undefined &&
    runner.granted === 0 &&
    runner.attempts.size === 0 &&
    runner.unsettled === 0
  );
}

/** Lets a synchronous engine's process breathe. */
const pause = (clock: Clock): Promise<void> =>
  new Promise((resolve) => {
    clock.after(0, resolve);
  });

const keyOf = (tenant: number, stream: string): string => `${tenant} ${stream}`;
const keyOfRunner = ({ tenant, id }: Runner): string => keyOf(tenant, id);
const keyOfOwned = ({ stream }: OwnedStream): string => keyOf(stream.tenant, stream.id);
