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

/** What a chat tool is to an operator. */
export interface AlertReceiver extends Pick<
  Endpoint,
  'url' | 'port' | 'answer' | 'arrivals' | 'close'
> {
  /** All that were taken, oldest first; of one stream when its id is given. */
  alerts(stream?: string): StreamAlertBody[];
  /** All that were taken about nodes, the store and logs, oldest first. */
  system(): SystemAlertBody[];
  /** Waits until so many have come for a stream, and answers them. */
  waitFor(stream: string, count: number): Promise<StreamAlertBody[]>;
}

export async function startAlertReceiver(): Promise<AlertReceiver> {
  const taken: AlertBody[] = [];
  const endpoint = await startEndpoint();
  let status = 200;
  const answer: Endpoint['answer'] = (how) => {
    if (typeof how === 'number') status = how;
    else endpoint.answer(how);
  };
  endpoint.answer((response, { body }) => {
    if (status < 300) taken.push(JSON.parse(body) as AlertBody);
    response.writeHead(status).end('ok');
  });
  const alerts = (stream?: string): StreamAlertBody[] =>
    taken
      .filter((alert) => 'new_failures' in alert)
      .filter((alert) => stream === undefined || alert.stream.id === stream);
  return {
    ...endpoint,
    arrivals: endpoint.arrivals,
    answer,
    alerts,
    system: () => taken.filter((alert): alert is SystemAlertBody => !('new_failures' in alert)),
    waitFor: async (stream, count) => {
      await waitFor(`${count} alerts of ${stream}`, () => alerts(stream).length >= count, {
        progress: () => endpoint.arrivals.length,
      });
      return alerts(stream);
    },
  };
}
