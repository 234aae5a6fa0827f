/**
 * A hostile client in its own process: repeats the requests of a case from the message `{ start }`
 * until the message `{ stop: true }`, and then reports the number of responses by status.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'undici';
import { type Case, hostileCases } from './hostile-cases.ts';

/** Messages of the parent. */
export type Ask = { readonly start: string } | { readonly stop: true };

/** Responses by status; `closed` counts connections that the server closed. */
export type Statuses = Record<string, number>;

const [, , url = '', headersText = '{}'] = process.argv;
const headers = JSON.parse(headersText) as Record<string, string>;
const cases = hostileCases();
let clients: Client[] = [];
let statuses: Statuses = {};
let ending = new AbortController();

process.on('message', (ask: Ask) => {
  if ('start' in ask) {
    statuses = {};
    const wanted = cases.find(({ name }) => name === ask.start);
    if (wanted !== undefined) start(wanted);
  } else {
    ending.abort();
    for (const client of clients) void client.destroy();
    clients = [];
    process.send?.(statuses);
  }
});
process.on('disconnect', () => process.exit(0));

function start(wanted: Case): void {
  ending = new AbortController();
  for (let index = 0; index < wanted.connections; index += 1) {
    const client = new Client(url, { pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
    clients.push(client);
    void repeat(client, wanted, index, ending.signal);
  }
}

async function repeat(
  client: Client,
  wanted: Case,
  from: number,
  over: AbortSignal,
): Promise<void> {
  for (let index = from; !over.aborted; index += 1) {
    const request = wanted.requests[index % wanted.requests.length];
    if (request === undefined) return;
    const { method, path, body } = request;
    const status = await client
      .request({ path: `/api/v2${path}`, method, headers, body: body ?? null })
      .then(async (response) => {
        if (wanted.silent === true) await new Promise(() => {});
        await response.body.dump({ limit: Infinity });
        return String(response.statusCode);
      })
      .catch(() => 'closed');
    if (over.aborted) return;
    statuses[status] = (statuses[status] ?? 0) + 1;
    await sleep(status === '429' ? 200 : wanted.pauseMs + (status === 'closed' ? 10 : 0));
  }
}
