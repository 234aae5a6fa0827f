import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type { Node } from '../../src/core/types.ts';
import type { Line } from './line.ts';
import type { Broken, PromiseName } from './promises.ts';
import type { SharedStore } from './shared-store.ts';
import { TenantLog } from './tenant-log.ts';

export interface AccountDeps {
  readonly sharedStore: Pick<SharedStore, 'db' | 'tenants'>;
  readonly settings: DeliverySettings;
  /** Whether the plan has nothing that may hold a process or the store up for long. */
  readonly isPunctual: boolean;
  /** See `UpkeepSettings`. */
  readonly lagMaxMs: number;
  readonly nowMs: () => number;
  /** The clock of the store. */
  readonly now: () => number;
}

/** What is known of the logs and of the streams, and the first promise that was broken. */
export class Account {
  readonly deps: AccountDeps;
  readonly lines = new Map<string, Line>();
  /** One for each tenant. */
  readonly logs: readonly TenantLog[];
  broken: Broken | undefined;

  constructor(deps: AccountDeps) {
    this.deps = deps;
    this.logs = deps.sharedStore.tenants.map((tenant) => new TenantLog(tenant));
  }

  break(promise: PromiseName, how: string): void {
    this.broken ??= { promise, atMs: this.deps.nowMs(), how };
  }

  /** Events of all logs. */
  get eventCount(): number {
    return this.logs.reduce((sum, { head }) => sum + head, 0);
  }

  /** Throws for a tenant that there is not. */
  logOf(tenant: number): TenantLog {
    const log = this.logs.find((one) => one.tenant === tenant);
    if (log === undefined) throw new Error(`There is no tenant ${tenant}.`);
    return log;
  }

  /** Streams that are there, oldest first. */
  living(): Line[] {
    return [...this.lines.values()].filter(({ isDeleted }) => !isDeleted);
  }

  wants(line: Line, offset: number): boolean {
    const type = line.log.event(offset)?.type ?? '';
    return line.spans.findLast(({ after }) => after < offset)?.types.includes(type) ?? false;
  }

  attemptKey(line: Line, eventId: string, attempt: number): string {
    return `${eventId} ${line.log.offsetOf(eventId)} ${line.cycles.get(eventId) ?? 0} ${attempt}`;
  }
}

/** Name of a process, other than that of the next one of its node. */
export const processOf = ({ id, incarnation }: Node): string => `${id}#${incarnation}`;
