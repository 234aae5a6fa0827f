import type { FastifyInstance } from 'fastify';

/** Adds the default picture of users (docs/http-api.md#default-picture), which belongs to no tenant. */
export function registerAvatar(app: FastifyInstance): void {
  app.get('/avatar.svg', async (_request, reply) => reply.headers(headers).send(picture));
}

const headers = {
  'content-type': 'image/svg+xml',
  'content-security-policy': "default-src 'none'; sandbox",
  'cache-control': 'public, max-age=86400',
  'x-content-type-options': 'nosniff',
};

/** A head and shoulders on grey. */
const picture =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 96 96" width="96" height="96">' +
  '<rect width="96" height="96" fill="#d0d4da"/><circle cx="48" cy="38" r="17" fill="#8b94a1"/>' +
  '<path d="M14 96c2-24 16-36 34-36s32 12 34 36z" fill="#8b94a1"/></svg>\n';
