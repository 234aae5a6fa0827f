import type { preValidationHookHandler } from 'fastify';
import type { TSchema } from '../../schemas/schema.ts';
import { partsOfTarget } from '../../core/request-head.ts';
import { badPath, nulReason } from './problem.ts';
import type { Schema } from './violation.ts';

/**
 * Escapes the percent signs of segments whose percent-encoding cannot be decoded, so that a route with
 * parameters is found; {@link rejectMalformedPath} then rejects the request.
 */
export function literalPath(url: string): string {
  if (!url.includes('%')) return url;
  const path = pathOf(url);
  const segments = path.split('/').map((segment) => {
    return isDecodable(segment) ? segment : segment.replaceAll('%', '%25');
  });
  return segments.join('/') + url.slice(path.length);
}

/**
 * Creates the phase that throws 400 for a path parameter whose percent-encoding cannot be decoded, or that
 * has U+0000.
 *
 * @param pattern of the route, below `/api/v2`
 */
export function rejectMalformedPath(pattern: string, params: TSchema): preValidationHookHandler {
  const names = `/api/v2${pattern}`
    .split('/')
    .map((part) => (part.startsWith(':') ? part.slice(1) : undefined));
  const { properties = {} }: Schema = params;
  return (request, _reply, done) => {
    const { originalUrl, raw } = request;
    const bad = (reason: string, name: string): void =>
      done(badPath(reason, name, properties[name]?.description ?? ''));
    const decoded = Object.entries(request.params as Readonly<Record<string, string>>);
    const [withNul] = decoded.find(([, value]) => value.includes('\0')) ?? [];
    if (withNul !== undefined) return bad(nulReason, withNul);
    if (originalUrl === raw.url) return done();
    const segments = pathOf(partsOfTarget(originalUrl)?.path ?? '').split('/');
    const name = names.find((each, at) => each !== undefined && !isDecodable(segments[at] ?? ''));
    if (name === undefined) return done();
    bad('Not valid percent-encoding', name);
  };
}

function pathOf(url: string): string {
  const at = url.indexOf('?');
  return at === -1 ? url : url.slice(0, at);
}

function isDecodable(segment: string): boolean {
  try {
    decodeURIComponent(segment);
    return true;
  } catch {
    return false;
  }
}
