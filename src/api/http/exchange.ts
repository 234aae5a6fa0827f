import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { AuthContext } from '../authenticate.ts';
import type { RawBody } from './body.ts';
import type { MemoryShare } from './memory-pool.ts';

/** State of one request to an operation, passed from phase to phase. */
export interface Exchange {
  context: AuthContext;
  /** Memory that the body takes; released after the handler, or by the error handler. */
  share?: MemoryShare;
  raw?: RawBody;
}

/** Declares the {@link Exchange} of every request of the app. */
export function declareExchanges(app: FastifyInstance): void {
  app.decorateRequest('exchange');
}

export function setExchange(request: FastifyRequest, exchange: Exchange): void {
  request.setDecorator('exchange', exchange);
}

/** Returns the exchange of an authenticated request. */
export function exchangeOf(request: FastifyRequest): Exchange {
  return request.getDecorator<Exchange>('exchange');
}

/** Releases the memory of a request's body, if it holds any. */
export function releaseExchange(request: FastifyRequest): void {
  request.getDecorator<Exchange | undefined>('exchange')?.share?.close();
}
