/**
 * Publishes large events without a subscribed stream as fast as the server accepts them, until it is
 * killed; waits for the Retry-After of each 429. Reports the first accepted request to its parent.
 * Arguments: the URL of the server and the headers of a request as JSON.
 */
import { setPriority } from 'node:os';
import { Pool } from 'undici';

const [, , url = '', headersText = '{}'] = process.argv;
const headers = JSON.parse(headersText) as Record<string, string>;
const connections = 4;
/** 15 events of 255 KiB, just below the limit of a request. */
const events = Array.from({ length: 15 }, (_, index) => ({
  type: 'flood.made',
  data: { index, text: 'x'.repeat(255 * 1024) },
}));
const body = JSON.stringify(events);

// The cost of creating the load must not be measured.
setPriority(19);
const pool = new Pool(url, { connections, pipelining: 1 });
await Promise.all(Array.from({ length: connections }, publishOn));

async function publishOn(): Promise<never> {
  for (;;) {
    const response = await pool.request({ path: '/api/v2/events', method: 'POST', headers, body });
    const text = await response.body.text();
    if (response.statusCode === 202) process.send?.('accepted');
    else if (response.statusCode !== 429) throw new Error(text);
    const waitSeconds = Number(response.headers['retry-after'] ?? 0);
    await new Promise((resolve) => setTimeout(resolve, waitSeconds * 1000));
  }
}
