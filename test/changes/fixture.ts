import type { TestContext } from 'node:test';
import { limits } from '../../src/config.ts';
import type { ChangesSettings } from '../../src/changes/settings.ts';
import { createWatchers, type Watchers } from '../../src/changes/watchers.ts';
import type { Hint, SharedHint } from '../../src/store/port/hints.ts';
import { createHints } from '../../src/store/hints.ts';
import { random } from '../auth/fixture.ts';
import { attemptReport } from '../helpers/attempt-report.ts';
import { createManualClock, type ManualClock } from '../helpers/clock.ts';
import { Wire } from '../pull/fixture.ts';

/** The watchers of nodes on one store, with a manual clock and manual connections. */
export interface WatchFixture {
  readonly clock: ManualClock;
  readonly logged: string[];
  /** What nodes told each other. */
  readonly shared: SharedHint[];
  /** Adds a node; one that hears nothing receives no hints of any node. */
  addNode(options?: { readonly hears?: boolean }): WatchedNode;
}

export interface WatchedNode {
  readonly watchers: Watchers;
  /** Emits a hint at this node alone. */
  hint(hint: Hint): void;
  /** Reports that an attempt has ended of a stream of tenant 1, unless another one is named. */
  attempt(stream: string, tenant?: number): void;
  /** Reports that its outcome is in the store. */
  settle(stream: string, tenant?: number): void;
  open(options?: {
    readonly tenant?: number;
    readonly client?: string;
    readonly wire?: Wire;
    readonly stillValid?: () => boolean | Promise<boolean>;
  }): Wire;
}

export function createWatchFixture(
  t: Pick<TestContext, 'after'>,
  settings: Partial<ChangesSettings> = {},
): WatchFixture {
  const clock = createManualClock();
  const logged: string[] = [];
  const shared: SharedHint[] = [];
  const nodes: { readonly name: string; readonly receive: (hint: SharedHint) => void }[] = [];
  const addNode: WatchFixture['addNode'] = ({ hears = true } = {}) => {
    const name = `node ${nodes.length + 1}`;
    const { emit, watch } = createHints({ report: (error) => logged.push(String(error)) });
    if (hears) nodes.push({ name, receive: emit });
    const share = (hint: SharedHint): void => {
      shared.push(hint);
      // As the engines do: a node hears its own `watched` only.
      for (const node of nodes)
        if (node.name !== name || hint.kind === 'watched') node.receive(hint);
    };
    const watchers = createWatchers({
      store: { watch, share },
      clock,
      random,
      node: name,
      // Tests count the messages about changes.
      settings: {
        ...limits.pull,
        ...limits.changes,
        connectionsMax: 100,
        repeatMs: Infinity,
        ...settings,
      },
      log: { error: (_facts, message) => logged.push(message) },
    });
    t.after(() => watchers.close());
    return {
      watchers,
      hint: emit,
      attempt: (stream, tenant = 1) => watchers.report(attemptReport({ tenant, stream })),
      settle: (stream, tenant = 1) =>
        watchers.report({ kind: 'settled', outcomes: 1, streams: [{ tenant, stream }] }),
      open: ({
        tenant = 1,
        client = 'client',
        wire = new Wire(),
        stillValid = () => true,
      } = {}) => {
        const reservation = watchers.reserve(tenant, client);
        if (reservation === undefined) throw new Error('connection limit reached');
        wire.clock = clock;
        wire.events = reservation.begin({ token: client, stillValid }, wire);
        return wire;
      },
    };
  };
  return { clock, logged, shared, addNode };
}

/** What the `changed` messages of a connection said. */
export function messagesOf({ text }: Pick<Wire, 'text'>): unknown[] {
  return [...text.matchAll(/^event: changed\ndata: (?<data>.*)$/gm)].map((match) => {
    const { streams, all } = JSON.parse(match.groups?.['data'] ?? '') as {
      streams: string[];
      all?: true;
    };
    return all === true ? 'all' : streams;
  });
}
