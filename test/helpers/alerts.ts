import { type Endpoint, startEndpoint } from './endpoint.ts';
import { waitFor } from './leat.ts';

/** An alert as it is posted. */
export interface AlertJson {
  readonly text: string;
  readonly alert: 'delivery_failures' | 'stream_disabled' | 'threshold_near';
  readonly tenant: string;
  readonly stream: { readonly id: string; readonly name: string };
  readonly new_failures: number;
  readonly total_failures: number;
  readonly consecutive_failures?: number;
  readonly percent?: number;
  readonly last_error?: string;
  readonly time: string;
}

/** What a chat tool is to an operator. */
export interface AlertReceiver extends Pick<
  Endpoint,
  'url' | 'port' | 'answer' | 'arrivals' | 'close'
> {
  /** All that were taken, oldest first; of one stream when its id is given. */
  alerts(stream?: string): AlertJson[];
  /** Waits until so many have come for a stream, and answers them. */
  waitFor(stream: string, count: number): Promise<AlertJson[]>;
}

export async function startAlertReceiver(): Promise<AlertReceiver> {
  const taken: AlertJson[] = [];
  const endpoint = await startEndpoint();
  let status = 200;
  const answer: Endpoint['answer'] = (how) => {
    if (typeof how === 'number') status = how;
    else endpoint.answer(how);
  };
  endpoint.answer((response, { body }) => {
    if (status < 300) taken.push(JSON.parse(body) as AlertJson);
    response.writeHead(status).end('ok');
  });
  const alerts = (stream?: string): AlertJson[] =>
    taken.filter((alert) => stream === undefined || alert.stream.id === stream);
  return {
    ...endpoint,
    arrivals: endpoint.arrivals,
    answer,
    alerts,
    waitFor: async (stream, count) => {
      await waitFor(`${count} alerts of ${stream}`, () => alerts(stream).length >= count);
      return alerts(stream);
    },
  };
}
