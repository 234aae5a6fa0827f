/**
 * Health check of the container: ends with exit code 0 when the service responds with a status of 2xx. The image
 * has no curl. It requests `/healthz`, or the path of its argument, where the settings of the environment and of
 * `.env` in the working directory say that the service listens.
 */
import { readFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { parseEnv } from 'node:util';

const timeoutMs = 5000;

const file = settingsOfFile();
/** As Leat reads it: an empty variable counts as not set. */
const setting = (name) => process.env[name] || file[name];
const path = process.argv[2] ?? '/healthz';
const secure = Boolean(setting('LEAT_TLS') || setting('LEAT_TLS_CERT'));
const request = secure ? httpsRequest : httpRequest;
const outgoing = request({
  // Linux takes a connection to 0.0.0.0 or :: as one to itself.
  host: setting('LEAT_HOST') || '127.0.0.1',
  port: Number(setting('LEAT_PORT') || 8080),
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

function settingsOfFile() {
  try {
    return parseEnv(readFileSync('.env', 'utf8'));
  } catch {
    return {};
  }
}
