import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

/** Starts a server that issues a token and passes every other request to `respond`. */
export async function startFake(t: Pick<TestContext, 'after'>, respond: RequestListener) {
  const requested: string[] = [];
  const server = createServer((request, response) => {
    request.resume();
    requested.push(`${request.method} ${request.url}`);
    if (request.url !== '/oauth/token') return respond(request, response);
    response.end('{"access_token":"token","expires_in":3600}');
  }).listen(0, '127.0.0.1');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { requested, env: { LEAT_URL: url, LEAT_CLIENT_ID: 'a', LEAT_CLIENT_SECRET: 'b-secret' } };
}
