import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { AuthContext } from '../authenticate.ts';
import type { Caller } from '../operation.ts';
import type { RawBody } from './body.ts';
import type { MemoryShare } from './memory-pool.ts';

/** What the phases of one request to an operation hand on to the later ones. */
export interface Exchange {
  readonly context: AuthContext;
  readonly caller: Caller;
  /** Memory that the body takes; closed when the handler is done, or with an error. */
  share?: MemoryShare;
  raw?: RawBody;
}

/** Makes room for an {@link Exchange} in every request of the app. */
export function holdExchanges(app: FastifyInstance): void {
  app.decorateRequest('exchange');
}

export function setExchange(request: FastifyRequest, exchange: Exchange): void {
  (request as WithExchange).exchange = exchange;
}

/** Returns the exchange that authentication has begun; throws before that. */
export function exchangeOf(request: FastifyRequest): Exchange {
  const { exchange } = request as WithExchange;
  if (exchange === undefined) throw new Error('The request was not authenticated.');
  return exchange;
}

/** Gives back what a request holds, if it has got as far as to hold anything. */
export function releaseExchange(request: FastifyRequest): void {
  (request as WithExchange).exchange?.share?.close();
}

type WithExchange = FastifyRequest & { exchange?: Exchange };
