/**
 * The upper bound of Node's HTTP server: responds to every request with the same short JSON and two
 * headers, without reading the request.
 */
import { createServer } from 'node:http';

const body = JSON.stringify({ text: 'This is a public message.' });
const headers = { 'content-type': 'application/json', 'content-length': body.length };
const server = createServer((_request, response) => {
  response.writeHead(200, headers).end(body);
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') process.send?.({ port: address.port });
});
process.on('disconnect', () => process.exit(0));
