import type { Logger } from 'pino';
import { shortageAlert } from '../alerting/shortage-alert.ts';
import { refusedAlert, storeAlerts } from '../alerting/store-alerts.ts';
import { createWebhookKeys, type WebhookKeyDeps } from '../auth/webhook-keys.ts';
import type { SystemAlerts } from '../alerting/system-alerts.ts';
import { type Config, limits } from '../config.ts';
import type { Clock } from '../core/clock.ts';
import { StoreUnavailable } from '../core/errors.ts';
import { createDispatcher } from '../delivery/dispatcher.ts';
import type { Shortages } from '../delivery/http/shortages.ts';
import type { SigningTransport } from '../delivery/signing-transport.ts';
import type { Store } from '../store/port/store.ts';
import { logReport } from './delivery-log.ts';
import type { StatsRecorder } from '../stats/recorder.ts';
import type { ServiceMetrics } from './metrics.ts';

export interface ServiceDispatcherDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  readonly nodeId: string;
  readonly transport: SigningTransport;
  readonly shortages: Shortages;
  readonly webhookKeyring: WebhookKeyDeps['keyring'];
  /** Receive the reports of the dispatcher. */
  readonly metrics: ServiceMetrics | undefined;
  readonly stats: Pick<StatsRecorder, 'report'>;
  readonly system: SystemAlerts;
  /** Set while the dispatcher cannot write for lack of room. */
  readonly disk: { isFull: boolean };
}

/** Creates the dispatcher of the settings; its reports go to log, metrics and alerts. */
export function createServiceDispatcher(
  store: Store,
  deps: ServiceDispatcherDeps,
): ReturnType<typeof createDispatcher> {
  const { config, clock, log, version, nodeId, metrics, stats, system, disk } = deps;
  const { transport, shortages } = deps;
  const keyring = deps.webhookKeyring;
  const dispatcher = createDispatcher({
    nodeId: config.store.engine === 'postgres' ? nodeId : undefined,
    store,
    transport,
    shortages,
    webhookKeys: createWebhookKeys({ keyring, keys: store.webhookKeys, clock }),
    clock,
    settings: {
      ...limits.delivery,
      streamConcurrency: config.streamConcurrency,
      concurrency: config.concurrency,
      inflightBytesMax: config.inflightBytesMax,
      retry: config.retry,
      retryDelaysMs: config.retryDelaysMs,
      retry4xx: config.retry4xx,
      attemptTimeoutMs: config.attemptTimeoutMs,
      disable: { consecutive: config.disableConsecutive, total: config.disableTotal },
      userAgent: `Leat/${version}`,
      attributePrefix: config.attributePrefix,
    },
    report: (report) => {
      logReport(log, report);
      metrics?.report(report);
      stats.report(report);
      if (report.kind === 'store_replaced') {
        for (const alert of storeAlerts(report)) system.raise(alert);
      }
      if (report.kind === 'store_unavailable') disk.isFull = isDiskFull(report.error);
      if (report.kind === 'store_recovered') disk.isFull = false;
      if (report.kind === 'settle_stuck') system.raise(refusedAlert(report));
      if (report.kind === 'shortage' && !report.isOver) system.raise(shortageAlert(report, nodeId));
    },
  });
  metrics?.observeDispatcher(dispatcher);
  return dispatcher;
}

function isDiskFull(error: unknown): boolean {
  return error instanceof StoreUnavailable && error.reason === 'full';
}
