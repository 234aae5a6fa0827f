/**
 * Health check of the container: ends with exit code 0 when the service responds with a status of 2xx. The image
 * has no curl. It requests `/healthz`, or the path of its argument, where the settings of the environment say that
 * the service listens.
 */
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';

const timeoutMs = 5000;

const { LEAT_HOST, LEAT_PORT, LEAT_TLS, LEAT_TLS_CERT } = process.env;
const path = process.argv[2] ?? '/healthz';
const secure = Boolean(LEAT_TLS) || Boolean(LEAT_TLS_CERT);
const request = secure ? httpsRequest : httpRequest;
const outgoing = request({
  // Linux takes a connection to 0.0.0.0 or :: as one to itself.
  host: LEAT_HOST || '127.0.0.1',
  port: Number(LEAT_PORT || 8080),
  path,
  // The certificate names the public domain, and the connection does not leave the container.
  rejectUnauthorized: false,
  signal: AbortSignal.timeout(timeoutMs),
});
outgoing.on('response', (response) => {
  const { statusCode = 0 } = response;
  console.log(`${path}: ${statusCode}`);
  process.exit(statusCode >= 200 && statusCode < 300 ? 0 : 1);
});
outgoing.on('error', (error) => {
  console.log(`${path}: ${error.message || error.code}`);
  process.exit(1);
});
outgoing.end();
