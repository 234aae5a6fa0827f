import type { Store } from '../../../src/store/port/store.ts';

/**
 * An engine to run the contract suite on. The suite depends on nothing else of it, so a second
 * engine is one more of these.
 */
export interface Engine {
  /** Shown in the names of the tests. */
  readonly name: string;
  /** True when its data outlives the store; `reopen` is there then. */
  readonly keepsData?: boolean | undefined;
  /** Tags of suites whose statements are the same on every engine; the quick tests of one engine suffice. */
  readonly sharedTags: readonly 'long'[];
  /** Opens a fresh, empty store. */
  open(): Promise<OpenedStore>;
}

/** The time of a store, set by the test. */
export interface TestTime {
  at: number;
}

export interface OpenedStore {
  readonly store: Store;
  /** The clock of the instants that the store writes, except those of leases. */
  readonly time: TestTime;
  /** Closes the store and opens it again over the same data, for an engine that keeps them. */
  reopen?(): Promise<OpenedStore>;
  /** Closes the store and removes its data. */
  close(): Promise<void>;
}
