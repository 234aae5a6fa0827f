import type {
  AlertBody,
  StreamAlert,
  StreamAlertBody,
  SystemAlertBody,
} from '../../src/alerting/alert.ts';
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
  at: Date.parse('2026-03-01T09:35:00.000Z'),
};

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
