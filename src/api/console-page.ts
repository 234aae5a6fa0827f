import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { asset, assetFolder } from '../core/asset.ts';
import type { Authenticator } from './authenticate.ts';
import type { ClientAddress } from './http/client-address.ts';
import { htmlHeaders } from './http/html.ts';
import { notFound } from './http/problem.ts';
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
    if (file === undefined) throw notFound('Not Found');
    return sendFile(reply.headers(fileHeaders(name)), request, file);
  });
  const etag = `"${hashOf(built.page.bytes)}"`;
  app.get('/console/*', async (request, reply) => {
    await deps.authenticator.authenticate(request, reply);
    const { host } = deps.clientAddressOf(request.raw);
    reply.headers(htmlHeaders({ secure: deps.isSecure(request.raw), host }));
    // Revalidated each time: it names the files of this version.
    reply.headers({ 'cache-control': 'no-cache', etag });
    const isKnown = request.headers['if-none-match']?.includes(etag) === true;
    return isKnown ? reply.code(304).send() : sendFile(reply, request, built.page);
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

/** Sends the smallest form that the client accepts. */
function sendFile(reply: FastifyReply, request: FastifyRequest, file: BuiltFile): FastifyReply {
  reply.header('vary', 'accept-encoding');
  const accepted = request.headers['accept-encoding'] ?? '';
  for (const [name, bytes] of [
    ['br', file.br],
    ['gzip', file.gzip],
  ] as const) {
    if (accepts(accepted, name)) return reply.header('content-encoding', name).send(bytes);
  }
  return reply.send(file.bytes);
}

/** Returns whether a client accepts an encoding (RFC 9110 section 12.5.3). */
function accepts(header: string, encoding: string): boolean {
  return header.split(',').some((part) => {
    const [name = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
    return name === encoding && !parameters.some((text) => /^q=0(?:\.0*)?$/.test(text));
  });
}
