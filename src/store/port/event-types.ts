import type { Millis } from '../../core/clock.ts';
import type { Offset } from '../../core/types.ts';

/**
 * The part of the store port with the types of the events in the log. Nodes remember them and record
 * them every few seconds, so a crash loses those that were published first within these seconds and not
 * since.
 */
export interface EventTypeStore {
  /**
   * Records events as the newest ones of their types; a newer one that is recorded stays. Leaves out tenants
   * that do not exist, and further types of a tenant that has {@link eventTypesMax}.
   */
  record(seen: readonly SeenType[]): Promise<void>;
  /**
   * Returns types of the tenant in their order: those that are recorded, and those of the newest events of
   * the log. Reads the bodies of types of which `isSampled` is true.
   */
  list(
    tenant: number,
    query: {
      /** The last type of the page before. */
      readonly after: string | undefined;
      readonly take: number;
      readonly isSampled: (type: string) => boolean;
    },
  ): Promise<readonly ListedType[]>;
}

/** Types of a tenant that are recorded, about: several nodes may record the last ones at the same time. */
export const eventTypesMax = 1_000;

/** Bytes of a body that {@link EventTypeStore.list} returns. */
export const sampleBytesMax = 8_192;

/** The newest event of a type that a node knows. */
export interface SeenType {
  readonly tenant: number;
  readonly type: string;
  readonly offset: Offset;
  /** When it was accepted. */
  readonly at: Millis;
}

export interface ListedType extends Pick<SeenType, 'type' | 'at'> {
  /** The newest event; absent when the log does not have it any more, or it is too large. */
  readonly body: string | undefined;
}
