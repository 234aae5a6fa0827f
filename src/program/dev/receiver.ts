import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { CheckSignature } from '../../cli/signature-check.ts';
import { readWebhook, type Webhook } from '../../cli/webhook.ts';
import type { Clock } from '../../core/clock.ts';
import { statusOf } from '../../cli/listen.ts';
import { listenOnLoopback } from './loopback.ts';

/** A receiver of webhooks on loopback, which can be broken and repaired. */
export interface LocalReceiver {
  /** `http://127.0.0.1:<port>`; a POST to `/break` or `/repair` below it does what it says. */
  readonly url: string;
  /** Whether webhooks get a 503. */
  isBroken: boolean;
  /** Checks signatures once it is set; a wrong one gets a 401. */
  checkSignature: CheckSignature | undefined;
  /** Stops listening and closes its connections. */
  close(): void;
}

export interface ReceiverDeps {
  readonly clock: Pick<Clock, 'now'>;
  /** Is called with each webhook, before the response. */
  readonly onWebhook: (webhook: Webhook) => void;
  /** Is called with a sentence about a request that is none. */
  readonly note: (text: string) => void;
}

/** Starts the receiver on a free port. */
export async function startReceiver(deps: ReceiverDeps): Promise<LocalReceiver> {
  const server = createServer((request, response) => void receive(request, response));
  const receiver = {
    url: '',
    isBroken: false,
    checkSignature: undefined as CheckSignature | undefined,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
  const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (isOfOtherPage(request, receiver.url)) {
      response.writeHead(403, { connection: 'close' });
      return void response.end('A web page sent this request: send it with curl instead.\n');
    }
    if (request.method === 'POST' && (request.url === '/break' || request.url === '/repair')) {
      receiver.isBroken = request.url === '/break';
      const status = receiver.isBroken ? 503 : 204;
      return void response.end(`The receiver responds to webhooks with ${status} from now on.\n`);
    }
    const webhook = await readWebhook(
      { request, response },
      {
        clock: deps.clock,
        checkSignature: receiver.checkSignature,
        statusFor: (check) => statusOf({ status: receiver.isBroken ? 503 : 204 }, 1, check),
      },
    );
    if (typeof webhook === 'string') return deps.note(webhook);
    deps.onWebhook(webhook);
    response.writeHead(webhook.status).end();
  };
  receiver.url = `http://127.0.0.1:${await listenOnLoopback(server)}`;
  return receiver;
}

/** Returns whether a page of another site sent a request: any page may send one to loopback. */
function isOfOtherPage({ headers }: IncomingMessage, own: string): boolean {
  const fetchedFrom = headers['sec-fetch-site'] ?? 'none';
  return (
    (headers.origin ?? own) !== own || (fetchedFrom !== 'none' && fetchedFrom !== 'same-origin')
  );
}
