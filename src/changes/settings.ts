import type { PullSettings } from '../pull/settings.ts';

/**
 * Intervals and bounds of watchers; the values are in `settings/changes.ts`, those of connections are the
 * ones of pulls.
 */
export interface ChangesSettings extends Pick<
  PullSettings,
  'connectionsMax' | 'heartbeatMs' | 'lifetimeMs' | 'spreadMs' | 'stalledMs' | 'tickMs'
> {
  /** From one message to the next, at least. */
  readonly everyMs: number;
  /**
   * From the last message about a change until the overview is reported once more: what a page reads of the whole
   * tenant may be as old.
   */
  readonly repeatMs: number;
  /** How often this node tells the others which tenants are watched here. */
  readonly announceMs: number;
  /** How long a tenant counts as watched at another node after it has said so. */
  readonly watchedMs: number;
  /** From one message about everything to the next where no notifications of other nodes arrive. */
  readonly unheardMs: number;
  /** Streams that the messages of one tick to other nodes name, all together. */
  readonly sharedStreamsMax: number;
  /** Tenants whose changes are sent to other nodes in one tick. */
  readonly sharedMax: number;
}
