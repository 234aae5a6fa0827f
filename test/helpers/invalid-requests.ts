import { messageText } from './exchange.ts';

const host = 'Host: localhost';
const chunked = 'Transfer-Encoding: chunked';
/** The end of a chunked body. */
export const lastChunk = '0\r\n\r\n';

const get =
  (...headers: string[]) =>
  (path: string): string =>
    messageText(`GET ${path} HTTP/1.1`, headers);
const post =
  (headers: readonly string[], body = '') =>
  (path: string): string =>
    messageText(`POST ${path} HTTP/1.1`, [host, ...headers], body);

/** Has nothing but its Host that keeps a parser of plain requests from taking it. */
const plainPost = (path: string, name: string): string =>
  messageText(
    `POST ${path} HTTP/1.1`,
    [
      `Host: ${name}`,
      'Authorization: Bearer x',
      'Content-Type: application/json',
      'Content-Length: 2',
    ],
    '{}',
  );

/** What every HTTP server of Leat rejects: what is wrong, the request for a path, the status. */
export const invalidRequests: readonly [
  what: string,
  textOf: (path: string) => string,
  status: number,
][] = [
  ['no Host', get(), 400],
  ['two Hosts', get(host, host), 400],
  ['a Host with a blank', get('Host: a b'), 400],
  ['a Host with a slash', get('Host: a/b'), 400],
  ['a Host with a user', get('Host: a@b'), 400],
  ['an empty Host', get('Host:'), 400],
  ['a Host with a port alone', get('Host: :8080'), 400],
  ['a Host of dots', get('Host: ..'), 400],
  ['a Host with brackets around no address', get('Host: [:]'), 400],
  ['a Host of dots in a POST', (path) => plainPost(path, '..'), 400],
  ['an unknown method', (path) => messageText(`FOO ${path} HTTP/1.1`, [host]), 400],
  ['HTTP/0.9', (path) => `GET ${path}\r\n\r\n`, 505],
  ['HTTP/2.0', (path) => messageText(`GET ${path} HTTP/2.0`, [host]), 505],
  ['an encoding before chunked', post(['Transfer-Encoding: gzip, chunked'], lastChunk), 501],
  ['chunked twice', post(['Transfer-Encoding: ,chunked'], lastChunk), 501],
  ['another last encoding than chunked', post(['Transfer-Encoding: gzip']), 400],
  [
    'chunks in HTTP/1.0',
    (path) => messageText(`POST ${path} HTTP/1.0`, [host, chunked], lastChunk),
    400,
  ],
  ['a user in the target', (path) => messageText(`GET http://u@a${path} HTTP/1.1`, [host]), 400],
  ['no host in the target', (path) => messageText(`GET http://${path} HTTP/1.1`, [host]), 400],
  ['another scheme', (path) => messageText(`GET ftp://localhost${path} HTTP/1.1`, [host]), 400],
  ['a header of 20 kB', get(host, `X: ${'x'.repeat(20_000)}`), 431],
  ['a target of 20 kB', (path) => get(host)(`${path}?${'x'.repeat(20_000)}`), 431],
  ['a folded header', get(host, 'X: a', ' b'), 400],
  ['a blank before a colon', get(host, 'X : a'), 400],
  ['a zero byte', get(host, 'X: a\0b'), 400],
  ['a bare line feed', (path) => `GET ${path} HTTP/1.1\r\n${host}\nX: y\r\n\r\n`, 400],
  ['a bare carriage return', get(host, 'X: a\rb'), 400],
  ['a length and chunks', post(['Content-Length: 5', chunked], lastChunk), 400],
  ['two equal lengths', post(['Content-Length: 0', 'Content-Length: 0']), 400],
  ['two lengths', post(['Content-Length: 1', 'Content-Length: 2']), 400],
  ['a negative length', post(['Content-Length: -1']), 400],
  ['garbage', () => 'hello\r\n\r\n', 400],
  ['a TLS handshake', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
];
