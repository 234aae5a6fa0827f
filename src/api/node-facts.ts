import type { ChannelName } from '../core/alert-channels.ts';
import type { ShownSetting } from '../core/setting.ts';
import type { Tenant } from '../core/types.ts';

/** What this node knows of itself, for its operators. Has no secret. */
export interface NodeFacts {
  readonly engine: 'sqlite' | 'postgres';
  readonly settings: readonly ShownSetting[];
  readonly alertChannels: readonly AlertTarget[];
  /** Sends a test alert over each channel, which names a tenant, and returns the results. */
  sendTestAlert(
    this: void,
    tenant: Pick<Tenant, 'name' | 'domain'>,
  ): Promise<readonly AlertTestResult[]>;
}

/** Where alerts are sent. */
export interface AlertTarget {
  readonly channel: ChannelName;
  /** As anybody may see it; absent for the log. */
  readonly target?: string | undefined;
}

export interface AlertTestResult {
  readonly channel: ChannelName;
  /** Why it was not sent, one line; `undefined` when it was. */
  readonly reason: string | undefined;
}
