import type { Operation } from '../operation.ts';
import { openapiDocument } from './openapi.ts';

/** Returns the OpenAPI document of a tenant as JSON in UTF-8, in pieces. */
export type DocumentOf = (tenant: {
  readonly domain: string;
  readonly plainHttp: boolean;
}) => readonly Buffer[];

/** Stands for the domain: `.invalid` is reserved (RFC 2606 section 2). */
const anyDomain = 'tenant.invalid';

/**
 * Creates the documents of all tenants. They differ by the domain alone and share the bytes around
 * it: anybody may request them, for any tenant, and may leave them unread.
 */
export function createDocuments(operations: readonly Operation[]): DocumentOf {
  const made = new Map<boolean, readonly Buffer[]>();
  const aroundDomain = (plainHttp: boolean): readonly Buffer[] => {
    const known = made.get(plainHttp);
    if (known !== undefined) return known;
    const text = JSON.stringify(openapiDocument({ operations, domain: anyDomain, plainHttp }));
    const pieces = text.split(anyDomain).map((piece) => Buffer.from(piece));
    made.set(plainHttp, pieces);
    return pieces;
  };
  return ({ domain, plainHttp }) => {
    const name = Buffer.from(domain);
    return aroundDomain(plainHttp).flatMap((piece, index) =>
      index === 0 ? [piece] : [name, piece],
    );
  };
}
