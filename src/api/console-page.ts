import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { asset, assetFolder } from '../core/asset.ts';
import type { Authenticator } from './authenticate.ts';
import type { ClientAddress } from './http/client-address.ts';
import { type Coding, preferredCoding } from './http/content-coding.ts';
import { isKnown } from './http/etag.ts';
import { htmlHeaders } from './http/html.ts';
import { noPath } from './http/problem.ts';
import { fileHeaders, hashOf } from './http/static-files.ts';

export interface ConsolePageDeps {
  readonly authenticator: Authenticator;
  readonly clientAddressOf: (request: FastifyRequest['raw']) => ClientAddress;
  /** Whether a request came over TLS, to Leat or to a trusted proxy. */
  readonly isSecure: (request: FastifyRequest['raw']) => boolean;
}

/**
 * Adds the web console: its page at every path below `/console/` that is no other route, as the page
 * itself reads the path, and its files. Both need no session and have no data. `/` leads to it.
 */
export function registerConsolePage(app: FastifyInstance, deps: ConsolePageDeps): void {
  const built = readConsole();
  app.get('/', async (request, reply) => {
    await deps.authenticator.authenticate(request, reply);
    return reply.redirect(built === undefined ? '/docs' : '/console/', 302);
  });
  if (built === undefined) return;
  app.get('/console', async (request, reply) => {
    await deps.authenticator.authenticate(request, reply);
    return reply.redirect('/console/', 301);
  });
  app.get('/console/assets/:name', async (request, reply) => {
    await deps.authenticator.authenticate(request, reply);
    const { name } = request.params as { readonly name: string };
    const file = built.files.get(name);
    if (file === undefined) throw noPath(request.url);
    return sendForm(reply.headers(fileHeaders(name)), formOf(request, file));
  });
  const hash = hashOf(built.page.bytes);
  app.get('/console/*', async (request, reply) => {
    await deps.authenticator.authenticate(request, reply);
    const { host } = deps.clientAddressOf(request.raw);
    reply.headers(htmlHeaders({ secure: deps.isSecure(request.raw), host }));
    // Revalidated each time: it names the files of this version.
    const form = formOf(request, built.page);
    // Each form has one of its own: a strong ETag stands for the same bytes (RFC 9110 section 8.8.3).
    const etag = `"${form.coding === undefined ? hash : `${hash}-${form.coding}`}"`;
    reply.headers({ 'cache-control': 'no-cache', etag, vary });
    const { 'if-none-match': ifNoneMatch } = request.headers;
    return isKnown(ifNoneMatch, etag) ? reply.code(304).send() : sendForm(reply, form);
  });
}

/** A file, as it is and as the build has compressed it. */
interface BuiltFile {
  readonly bytes: Buffer;
  readonly br: Buffer;
  readonly gzip: Buffer;
}

interface BuiltConsole {
  readonly page: BuiltFile;
  /** By their names, which have a hash. */
  readonly files: ReadonlyMap<string, BuiltFile>;
}

/** Reads what `npm run build` made; `undefined` where it made nothing. */
function readConsole(): BuiltConsole | undefined {
  if (!assetFolder('console/').names().includes('console.html')) return undefined;
  const read = (path: string): BuiltFile => ({
    bytes: asset(`console/${path}`),
    br: asset(`console/${path}.br`),
    gzip: asset(`console/${path}.gz`),
  });
  const names = assetFolder('console/assets/')
    .names()
    .filter((name) => !/\.(?:br|gz)$/.test(name));
  const files = new Map(names.map((name) => [name, read(`assets/${name}`)]));
  return { page: read('console.html'), files };
}

/** The bytes of a file, and how they are compressed. */
interface Form {
  readonly bytes: Buffer;
  readonly coding?: Coding;
}

/** Returns the form that the client prefers. */
function formOf(request: FastifyRequest, file: BuiltFile): Form {
  const coding = preferredCoding(request.headers['accept-encoding']);
  return coding === undefined ? { bytes: file.bytes } : { bytes: file[coding], coding };
}

const vary = 'accept-encoding';

function sendForm(reply: FastifyReply, { bytes, coding }: Form): FastifyReply {
  reply.header('vary', vary);
  if (coding !== undefined) reply.header('content-encoding', coding);
  return reply.send(bytes);
}
