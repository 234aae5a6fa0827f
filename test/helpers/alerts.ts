import type { AlertBody, StreamAlertBody, SystemAlertBody } from '../../src/alerting/alert-body.ts';
import type { Alert, AlertKind, StreamAlert, SystemAlert } from '../../src/alerting/alert.ts';
import { type Endpoint, startEndpoint } from './endpoint.ts';
import { waitFor } from './leat.ts';

/** The example of docs/monitoring.md#alerts. */
export const exampleAlert: StreamAlert = {
  kind: 'delivery_failures',
  tenant: 'main',
  stream: { id: 'est_MASi45ub7Qe4ZE36UT5G6c', name: 'crm' },
  newFailures: 12,
  total: 340,
  consecutive: 12,
  limits: { consecutive: 500, total: 5000 },
  lastError: 'timeout',
  causes: {
    codes: [
      { code: 'timeout', count: 11, sample: 'timeout' },
      { code: 'http_503', count: 1, sample: '503' },
    ],
    others: 0,
  },
  at: Date.parse('2026-03-01T09:35:00.000Z'),
};

const ofSystem = (kind: SystemAlert['kind'], about?: Alert['stream']): SystemAlert => ({
  kind,
  tenant: 'main',
  stream: about,
  sentence: 'a sentence',
  fields: {},
  key: kind,
  at: 0,
});

export interface AlertExample {
  readonly alert: Alert;
  /** Path of the link. */
  readonly path: string;
  readonly command: string;
}

/**
 * Returns an alert of each kind, about this stream. A new kind of alert fails the type check until it
 * has an example here.
 */
export function alertExamples(
  stream: StreamAlert['stream'],
): Readonly<Record<AlertKind, AlertExample>> {
  const ofStream = (kind: StreamAlert['kind']): StreamAlert => ({ ...exampleAlert, stream, kind });
  const { id, name } = stream;
  return {
    delivery_failures: {
      alert: ofStream('delivery_failures'),
      path: `console/failures?stream=${id}`,
      command: `leat failures --stream ${name}`,
    },
    threshold_near: {
      alert: ofStream('threshold_near'),
      path: `console/failures?stream=${id}`,
      command: `leat redeliver ${name} --cause timeout --dry-run`,
    },
    stream_disabled: {
      alert: ofStream('stream_disabled'),
      path: `console/streams/${id}`,
      command: `leat streams enable ${name} --resume held`,
    },
    lag_near: {
      alert: ofSystem('lag_near', stream),
      path: `console/streams/${id}`,
      command: `leat streams health ${name}`,
    },
    lag_disabled: {
      alert: ofSystem('lag_disabled', stream),
      path: `console/streams/${id}`,
      command: `leat streams enable ${name} --resume held`,
    },
    certificate_near: {
      alert: ofSystem('certificate_near', stream),
      path: `console/streams/${id}`,
      command: `leat streams show ${name}`,
    },
    certificate_expired: {
      alert: ofSystem('certificate_expired', stream),
      path: `console/streams/${id}`,
      command: `leat streams show ${name}`,
    },
    results_refused: {
      alert: ofSystem('results_refused', stream),
      path: `console/streams/${id}`,
      command: `leat streams health ${name}`,
    },
    clock_skew: { alert: ofSystem('clock_skew'), path: 'console/nodes', command: 'leat doctor' },
    clock_step: { alert: ofSystem('clock_step'), path: 'console/nodes', command: 'leat doctor' },
    node_shortage: {
      alert: ofSystem('node_shortage'),
      path: 'console/nodes',
      command: 'leat doctor',
    },
    disk_full: { alert: ofSystem('disk_full'), path: 'console/nodes', command: 'leat doctor' },
    store_went_back: {
      alert: ofSystem('store_went_back'),
      path: 'console/events',
      command: 'leat doctor',
    },
    test: { alert: ofSystem('test'), path: 'console/settings', command: 'leat doctor' },
  };
}

/** A webhook that collects alerts, as a chat tool does. */
export interface AlertReceiver extends Pick<
  Endpoint,
  'url' | 'port' | 'respondWith' | 'arrivals' | 'close'
> {
  /** Returns the accepted alerts of streams, oldest first; those of one stream with its id. */
  alerts(stream?: string): StreamAlertBody[];
  /** Returns the accepted alerts about nodes, the store and logs, oldest first. */
  system(): SystemAlertBody[];
  /** Waits for `count` alerts of a stream and returns them. */
  waitFor(stream: string, count: number): Promise<StreamAlertBody[]>;
}

export async function startAlertReceiver(): Promise<AlertReceiver> {
  const accepted: AlertBody[] = [];
  const endpoint = await startEndpoint();
  let status = 200;
  const respondWith: Endpoint['respondWith'] = (next) => {
    if (typeof next === 'number') status = next;
    else endpoint.respondWith(next);
  };
  endpoint.respondWith((response, { body }) => {
    if (status < 300) accepted.push(JSON.parse(body) as AlertBody);
    response.writeHead(status).end('ok');
  });
  const alerts = (stream?: string): StreamAlertBody[] =>
    accepted
      .filter((alert) => 'new_failures' in alert)
      .filter((alert) => stream === undefined || alert.stream.id === stream);
  return {
    ...endpoint,
    arrivals: endpoint.arrivals,
    respondWith,
    alerts,
    system: () => accepted.filter((alert): alert is SystemAlertBody => !('new_failures' in alert)),
    waitFor: async (stream, count) => {
      await waitFor(`${count} alerts of ${stream}`, () => alerts(stream).length >= count, {
        progress: () => endpoint.arrivals.length,
      });
      return alerts(stream);
    },
  };
}
