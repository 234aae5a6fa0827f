import type { ConsoleRole, ConsoleSession } from '../../core/console-session.ts';
import type { StepQuery } from './upkeep.ts';

/**
 * The part of the store port for sessions of the web console and the one-time codes that begin them.
 * Secrets and codes come as their SHA-256. The rules are those of core/console-session.ts, by the
 * clock of the store.
 */
export interface ConsoleSessionStore {
  /**
   * Adds a one-time code; of too many the oldest are removed. Returns false when there is no such
   * tenant, as when it is being removed.
   */
  addCode(code: {
    readonly tenant: number;
    readonly codeHash: Uint8Array;
    readonly role: ConsoleRole;
  }): Promise<boolean>;
  /** Returns the role of a code that {@link redeem} accepts, and does not use it up. */
  roleOfCode(tenant: number, codeHash: Uint8Array): Promise<ConsoleRole | undefined>;
  /**
   * Uses up a code and begins a session with its role. Returns `undefined` for a code that is unknown,
   * used, expired, or of another tenant; of several uses at the same time one gets the session.
   */
  redeem(
    tenant: number,
    codeHash: Uint8Array,
    session: Pick<NewSession, 'id' | 'secretHash' | 'user'>,
  ): Promise<ConsoleSession | undefined>;
  /**
   * Begins a session without a code; of too many the oldest end. Returns `undefined` when there is no
   * such tenant, as when it is being removed.
   */
  begin(session: NewSession): Promise<ConsoleSession | undefined>;
  /**
   * Returns the session with this secret unless it has ended. With `isUse` it is used now: recorded at
   * most once a minute, and not written otherwise.
   */
  get(tenant: number, secretHash: Uint8Array, isUse: boolean): Promise<ConsoleSession | undefined>;
  /**
   * Ends the session with this secret, which does not come back when the clock does. Returns false when
   * there is none, or it has ended.
   */
  end(tenant: number, secretHash: Uint8Array): Promise<boolean>;
  /** Returns the sessions that have not ended, newest first. */
  list(tenant: number): Promise<ConsoleSession[]>;
  /**
   * Ends one session by its id, or all of a tenant, in the same way; all includes codes that are not used.
   * Returns how many sessions had not ended.
   */
  endMany(tenant: number, which: { readonly id: string } | 'all'): Promise<number>;
  /**
   * A step of upkeep, see {@link UpkeepStore}: deletes sessions that have ended and codes that have
   * expired, of all tenants, at most `take` of each. Returns how many.
   */
  prune(query: Pick<StepQuery, 'take'>): Promise<number>;
}

/** A session that begins. */
export interface NewSession extends Pick<
  ConsoleSession,
  'tenant' | 'id' | 'role' | 'user' | 'mapping'
> {
  readonly secretHash: Uint8Array;
}
