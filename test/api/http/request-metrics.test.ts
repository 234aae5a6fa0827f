import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import Fastify, { type FastifyInstance } from 'fastify';
import {
  countResponse,
  createRouteCounts,
  measureRequests,
} from '../../../src/api/http/request-metrics.ts';

describe('measureRequests', () => {
  const counted: string[] = [];
  let nowMs = 0;
  let app: FastifyInstance;
  let url: string;

  before(async () => {
    app = Fastify();
    measureRequests(app, {
      clock: { elapsedMs: () => nowMs },
      countOf: createRouteCounts({
        route: (method, pattern) => (status, durationMs) =>
          void counted.push(`${method} ${pattern} ${status} ${durationMs}`),
      }),
    });
    app.get('/streams/:id', async () => {
      nowMs += 7;
      return 'found';
    });
    app.post('/streams', async () => {
      throw Object.assign(new Error('conflict'), { statusCode: 409 });
    });
    app.get('/live', async (request, reply) => {
      reply.hijack().raw.writeHead(200);
      countResponse(request, 200);
      reply.raw.end();
    });
    app.get('/gone', async (_request, reply) => reply.hijack().raw.destroy());
    url = await app.listen({ host: '127.0.0.1', port: 0 });
  });
  after(() => app.close());
  beforeEach(() => counted.splice(0));

  const cases: [what: string, method: string, path: string, line: string][] = [
    ['a response by the pattern of its route', 'GET', '/streams/1?a=b', 'GET /streams/:id 200 7'],
    ['a response to HEAD once, as HEAD', 'HEAD', '/streams/1', 'HEAD /streams/:id 200 7'],
    ['an error', 'POST', '/streams', 'POST /streams 409 0'],
    ['a path that no route has', 'GET', '/secret', 'GET none 404 0'],
    ['a method that the path does not have', 'PUT', '/streams/1', 'PUT none 404 0'],
    ['a hijacked response by countResponse', 'GET', '/live', 'GET /live 200 0'],
  ];
  for (const [what, method, path, line] of cases) {
    test(`measureRequests counts ${what}`, async () => {
      await fetch(`${url}${path}`, { method });
      assert.deepEqual(counted, [line]);
    });
  }

  test('measureRequests does not count a request without a response', async () => {
    await assert.rejects(fetch(`${url}/gone`));
    assert.deepEqual(counted, []);
  });
});
