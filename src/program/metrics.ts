import type { Logger } from 'pino';
import type { RequestMetrics } from '../api/http/request-metrics.ts';
import type { Clock } from '../core/clock.ts';
import { type Config, limits } from '../config.ts';
import { listenRefusal, urlOf } from './listen-address.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { openMetricsServer } from '../metrics/server.ts';
import type { Store } from '../store/port/store.ts';

/** The metrics of a service, on their own listener. */
export interface ServiceMetrics extends Omit<Metrics, 'contentType' | 'text' | 'hint' | 'route'> {
  /** URL for clients on the same machine. */
  readonly url: string;
  readonly meter: RequestMetrics;
  close(): Promise<void>;
}

export interface ServiceMetricsDeps {
  readonly config: Config;
  readonly log: Logger;
  readonly version: string;
  readonly clock: Clock;
}

/**
 * Opens the listener of the metrics; returns `undefined` without LEAT_METRICS_PORT, and then nothing
 * is counted and the library is not loaded. Throws `StartRefused` when it cannot listen.
 */
export async function openMetrics(
  store: Pick<Store, 'watch' | 'time' | 'tenants' | 'streams' | 'foreignSessions' | 'failure'>,
  { config, log, version, clock }: ServiceMetricsDeps,
): Promise<ServiceMetrics | undefined> {
  const { metricsHost: host, metricsPort: port, serviceName } = config;
  if (port === undefined) return undefined;
  const { createMetrics } = await import('../metrics/metrics.ts');
  const metrics = createMetrics({
    serviceName,
    version,
    time: store.time,
    names: store,
    foreignSessions: store.foreignSessions,
    failure: store.failure,
    clock,
    ...limits.metrics,
  });
  const report = (error: unknown): void =>
    log.error({ err: error }, 'the metrics could not be collected');
  const server = await openMetricsServer({ metrics, report, clock }, { host, port }).catch(
    (error: unknown) => {
      const variables = { hostVariable: 'LEAT_METRICS_HOST', portVariable: 'LEAT_METRICS_PORT' };
      throw listenRefusal(error, { host, port, ...variables });
    },
  );
  const unwatch = store.watch(metrics.hint);
  return {
    ...metrics,
    url: `${urlOf({ host, port }, { tls: false })}/metrics`,
    meter: metrics,
    close: async () => {
      unwatch();
      await server.close();
    },
  };
}
