/**
 * The baseline for single publishes: a Fastify route that parses the same body and responds
 * with a text of the same length, without a store.
 */
import Fastify from 'fastify';

const app = Fastify();
app.post('/api/v2/events', (_request, reply) => {
  reply.code(202).header('cache-control', 'no-store');
  return { id: 'evt_b8dLcukC7edhDQ7cn5d4gE', offset: 'MDAwMDAwMDAwMDQy' };
});
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.send?.({ port: Number(new URL(url).port) });
process.on('disconnect', () => process.exit(0));
