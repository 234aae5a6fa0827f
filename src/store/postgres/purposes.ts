import type { Store } from '../port/store.ts';
import type { Database } from './database.ts';
import type { Pools, Purpose } from './pools.ts';

/** The nouns of the port. What else a store has is created in `store.ts`. */
export type Nouns = Omit<
  Store,
  | 'copy'
  | 'foreignSessions'
  | 'time'
  | 'recording'
  | 'guarded'
  | 'watch'
  | 'share'
  | 'ping'
  | 'failure'
  | 'close'
>;

/** What a command runs on: the connections of a purpose, or those for reads of what callers may do. */
type Connections = Purpose | 'access';

/** A page of rows runs nowhere but on the connections of lists, whose bounds end it. */
type PurposeOf<Method> = Method extends (...parameters: never[]) => Promise<infer Result>
  ? [Extract<Result, { readonly items: readonly unknown[] }>] extends [never]
    ? Connections
    : 'lists'
  : 'commands';

type Purposes = {
  readonly [Noun in keyof Nouns]: {
    readonly [Method in keyof Nouns[Noun]]: PurposeOf<Nouns[Noun][Method]>;
  };
};

/** Changes by a client or an operator, and reads of one row. */
const commands = 'commands';
/** Pages, searches and sums: what takes longer the more a tenant has. */
const lists = 'lists';

const keys = {
  list: commands,
  add: commands,
  addFirst: commands,
  promote: commands,
  revoke: commands,
} as const;

const failureWork = {
  create: commands,
  step: commands,
  unfinished: commands,
  prune: commands,
} as const;

/** Which connections each command uses. One that is added to the port does not compile without an entry. */
export const purposes: Purposes = {
  tenants: {
    list: commands,
    create: commands,
    rename: commands,
    leave: commands,
    leaving: commands,
    removeStep: commands,
  },
  log: {
    append: 'publishing',
    head: 'log',
    heads: 'log',
    headMarks: 'log',
    page: 'log',
    firstSince: 'log',
    prune: commands,
  },
  streams: {
    create: commands,
    get: commands,
    list: lists,
    opened: lists,
    endpointHosts: lists,
    names: lists,
    health: commands,
    facts: lists,
    factsOf: lists,
    states: lists,
    mark: lists,
    retrying: lists,
    skipped: lists,
    update: commands,
    delete: commands,
    stats: lists,
    statsSums: lists,
  },
  deliveries: {
    listFailures: lists,
    failure: commands,
    redeliver: commands,
    redeliverMany: commands,
    retryNow: commands,
    releaseWaiting: 'delivering',
    bringForward: 'delivering',
    addTest: commands,
    claimDue: 'delivering',
    settle: 'delivering',
    pruneAttempts: commands,
  },
  dismissals: { ...failureWork, streams: lists, groups: lists, get: commands, reopen: commands },
  eventLog: {
    newest: lists,
    find: lists,
    offsetsOf: lists,
    deliveries: lists,
    attempts: lists,
    prune: commands,
  },
  eventTypes: { record: commands, list: lists },
  failures: { list: lists, groups: lists },
  redeliveries: { ...failureWork, get: commands, list: lists, cancel: commands },
  replays: {
    create: commands,
    list: lists,
    get: commands,
    cancel: commands,
    materialize: 'delivering',
    prune: commands,
  },
  ownership: {
    join: 'lease',
    heartbeat: 'lease',
    // A node that releases streams does not claim free ones.
    claim: 'delivering',
    begin: 'delivering',
    owned: 'delivering',
    hasSeen: commands,
    owner: commands,
    raiseCursors: 'delivering',
    release: 'delivering',
    noteRefusal: 'delivering',
    leave: 'lease',
    nodes: commands,
  },
  // Publishers need the keys, and without a token their client and its grant, whatever the connections of
  // other purposes wait for.
  keys: { ...keys, list: 'tokens' },
  webhookKeys: keys,
  secrets: {
    keys: commands,
    addKey: commands,
    removeKey: commands,
    state: commands,
    alone: commands,
    begin: commands,
    step: commands,
    finish: commands,
  },
  clients: {
    get: 'tokens',
    list: lists,
    listFrom: lists,
    access: 'access',
    create: commands,
    update: commands,
    delete: commands,
    useAssertion: commands,
  },
  apis: {
    get: commands,
    list: lists,
    create: commands,
    update: commands,
    delete: commands,
  },
  grants: {
    get: commands,
    of: 'tokens',
    list: lists,
    listFrom: lists,
    create: commands,
    update: commands,
    delete: commands,
  },
  roles: {
    get: commands,
    byName: commands,
    list: lists,
    create: commands,
    update: commands,
    delete: commands,
    permissions: lists,
    addPermissions: commands,
    removePermissions: commands,
    clients: lists,
    addClients: commands,
    removeClients: commands,
    users: lists,
    usersFrom: lists,
    addUsers: commands,
    removeUsers: commands,
    permissionsOf: commands,
  },
  users: {
    get: commands,
    byEmail: lists,
    list: lists,
    listFrom: lists,
    create: commands,
    update: commands,
    delete: commands,
  },
  auditLog: {
    get: commands,
    list: lists,
    listNumbered: lists,
    add: commands,
    prune: commands,
  },
  consoleSessions: {
    addCode: commands,
    roleOfCode: commands,
    redeem: commands,
    begin: commands,
    get: commands,
    end: commands,
    list: lists,
    endMany: commands,
    prune: commands,
  },
  alertState: {
    last: commands,
    record: commands,
    failingStreams: commands,
    standings: commands,
  },
  deliveryStats: {
    record: commands,
    read: lists,
    latencies: lists,
    rollUp: commands,
    prune: commands,
  },
  upkeep: {
    lead: commands,
    resign: commands,
    prepare: commands,
    tenantsToPrune: commands,
    dropEvents: commands,
    releaseKept: commands,
    shrink: commands,
    lagging: commands,
    noteLag: commands,
    disableLagging: commands,
    expiringCertificates: commands,
    noteCertificate: commands,
  },
  overview: {
    engine: lists,
    server: lists,
    faults: lists,
    size: lists,
    tenant: lists,
    behind: lists,
  },
};

/** The same commands with the connections of each purpose. */
type PartsByPurpose = Readonly<Record<Connections, Nouns>>;

/** Returns each command with the connections of its purpose. */
export function byPurpose(parts: PartsByPurpose, pools: Pick<Pools, 'lists' | 'access'>): Nouns {
  const nouns = Object.entries(purposes).map(([noun, methods]) => [
    noun,
    Object.fromEntries(
      Object.entries(methods as Readonly<Record<string, Connections>>).map(([name, purpose]) => {
        const command = (parts[purpose][noun as keyof Nouns] as unknown as Methods)[name];
        if (command === undefined) throw new Error(`The store has no command ${noun}.${name}.`);
        const isBounded = purpose === lists || purpose === 'access';
        return [name, isBounded ? within(pools[purpose], command) : command];
      }),
    ),
  ]);
  return Object.fromEntries(nouns) as Nouns;
}

type Methods = Readonly<Record<string, (...parameters: unknown[]) => unknown>>;

/** All statements of one reading share the bounds of its connections. */
function within(db: Pick<Database, 'bounded'>, list: Methods[string]): Methods[string] {
  return (...parameters) => db.bounded(async () => list(...parameters));
}
