import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type { Node } from '../../src/core/types.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import type { Violation, GuaranteeName } from './guarantees.ts';
import type { SharedStore } from './shared-store.ts';
import { TenantLog } from './tenant-log.ts';

export interface OracleDeps {
  readonly sharedStore: Pick<SharedStore, 'db' | 'tenants'>;
  readonly settings: DeliverySettings;
  /** Whether no fault of the plan delays a process or the store for long. */
  readonly isPunctual: boolean;
  /** See `UpkeepSettings`. */
  readonly lagMaxMs: number;
  readonly nowMs: () => number;
  /** The clock of the store. */
  readonly now: () => number;
}

/** The expected logs and streams, and the first guarantee that was violated. */
export class OracleCore {
  readonly deps: OracleDeps;
  readonly streams = new Map<string, SimulatedStream>();
  /** One for each tenant. */
  readonly logs: readonly TenantLog[];
  violation: Violation | undefined;

  constructor(deps: OracleDeps) {
    this.deps = deps;
    this.logs = deps.sharedStore.tenants.map((tenant) => new TenantLog(tenant));
  }

  violate(guarantee: GuaranteeName, how: string): void {
    this.violation ??= { guarantee, atMs: this.deps.nowMs(), how };
  }

  /** Events of all logs. */
  get eventCount(): number {
    return this.logs.reduce((sum, { head }) => sum + head, 0);
  }

  /** Throws for an unknown tenant. */
  logOf(tenant: number): TenantLog {
    const log = this.logs.find((one) => one.tenant === tenant);
    if (log === undefined) throw new Error(`There is no tenant ${tenant}.`);
    return log;
  }

  /** Returns the logs of the tenants that are not removed. */
  present(): TenantLog[] {
    return this.logs.filter(({ removal }) => removal === 'none');
  }

  /** Returns the streams that are not deleted, of tenants that are not removed, oldest first. */
  existing(): SimulatedStream[] {
    return [...this.streams.values()].filter(
      ({ isDeleted, log }) => !isDeleted && log.removal === 'none',
    );
  }

  wants(stream: SimulatedStream, offset: number): boolean {
    const type = stream.log.event(offset)?.type ?? '';
    return stream.spans.findLast(({ after }) => after < offset)?.types.includes(type) ?? false;
  }

  attemptKey(stream: SimulatedStream, eventId: string, attempt: number): string {
    return `${eventId} ${stream.log.offsetOf(eventId)} ${stream.cycles.get(eventId) ?? 0} ${attempt}`;
  }
}

/** Returns a name of a process that no later process of its node has. */
export const processOf = ({ id, incarnation }: Node): string => `${id}#${incarnation}`;
