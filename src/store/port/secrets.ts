/**
 * The part of the store port that changes the key of the sealed secrets. A rotation has three parts:
 * `begin` lets another key seal, `step` seals the stored values again, `finish` ends the use of the
 * former key. Every part may be repeated, also by another process after this one was killed.
 *
 * `begin`, `step` and `finish` throw `StoreReplaced` when the store has failed over since this
 * process opened it: it may lack steps that were done.
 */
export interface SecretStore {
  /** Returns the ids of the keys that this process has, in the order of LEAT_SECRET_KEY. */
  keys(): readonly string[];
  /** Gives this process another key, the first from now on unless it has it; returns its id. */
  addKey(key: Uint8Array): string;
  /** Takes a key away from this process. */
  removeKey(id: string): void;
  state(): Promise<SealState>;
  /** Runs `work`, unless this process is running another one: then returns `undefined`. */
  alone<T>(work: () => Promise<T>): Promise<T | undefined>;
  /** Lets a key of this process seal, once every live node has it; writes nothing otherwise. */
  begin(key: string): Promise<RotationStart>;
  /**
   * Seals a bounded number of rows after a position again: those that another key sealed. Returns
   * `undefined` when another process has changed the rotation since it began.
   */
  step(rotation: Rotation, after: SealedRow | undefined): Promise<RotationStep | undefined>;
  /**
   * Declares that the former key is not needed any more; call it after the last step. Returns false
   * when another process has changed the rotation since it began.
   */
  finish(rotation: Rotation): Promise<boolean>;
}

/** What a store says of its sealed values. */
export interface SealState {
  /** Id of the key that seals. */
  readonly key: string;
  /** The former key, as long as seals of it may be left. */
  readonly former: string | undefined;
}

/** The state during a rotation. */
export interface UnfinishedState extends SealState {
  readonly former: string;
}

export type RotationStart =
  | { readonly begun: Rotation }
  /** The key seals everything. */
  | { readonly done: SealState }
  /** Nodes that cannot open what the key would seal. */
  | { readonly lacking: readonly NodeKeys[]; readonly key: string }
  /** Another rotation is unfinished: it needs both of these keys. */
  | { readonly unfinished: UnfinishedState };

/** A rotation under way. */
export interface Rotation {
  readonly state: UnfinishedState;
  /** Differs between rotations. */
  readonly mark: Uint8Array;
}

/** The keys of a live node. */
export interface NodeKeys {
  readonly id: string;
  readonly keys: readonly string[];
}

/** A row with sealed values. */
export interface SealedRow {
  readonly table: string;
  readonly tenant: number;
  readonly row: string;
}

export interface RotationStep {
  /** Rows that were read. */
  readonly seen: number;
  /** Rows that were sealed again, and the values in them. */
  readonly rows: number;
  readonly values: number;
  /** Values that open with none of the keys, by their rows and columns; they are left as they are. */
  readonly broken: readonly (SealedRow & { readonly column: string })[];
  /** Where the next step continues; `undefined` after the last one. */
  readonly next: SealedRow | undefined;
}
