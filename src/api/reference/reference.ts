import type { FastifyInstance, FastifyRequest } from 'fastify';
import { asset } from '../../core/asset.ts';
import { words } from '../../core/words.ts';
import { closed } from '../../schemas/schema.ts';
import { isKnown } from '../http/etag.ts';
import { hashOf, staticFile, type StaticFile, withoutDataUrls } from '../http/static-files.ts';
import type { Authenticator } from '../authenticate.ts';
import { htmlHeaders } from '../http/html.ts';
import type { Operation } from '../operation.ts';
import type { ClientAddress } from '../http/client-address.ts';
import { parseQuery, queryOf } from '../http/query.ts';
import { sendPieces } from '../http/respond.ts';
import type { ApiSettings } from '../settings.ts';
import { openapiDocument } from './openapi.ts';

export interface ReferenceDeps {
  readonly authenticator: Authenticator;
  readonly operations: readonly Operation[];
  readonly settings: Pick<ApiSettings, 'plainHttp'>;
  readonly clientAddressOf: (request: FastifyRequest['raw']) => ClientAddress;
  /** Whether a request came over TLS, to Leat or to a trusted proxy. */
  readonly isSecure: (request: FastifyRequest['raw']) => boolean;
  /** Version of the program. */
  readonly version: string;
}

/**
 * Adds the OpenAPI document and the page that shows it. They need no token; each file counts against
 * the bucket of the client address: the largest one has 1.7 MB.
 */
export function registerReference(app: FastifyInstance, deps: ReferenceDeps): void {
  registerDocument(app, deps);
  const { html, files } = buildPage(deps.version);
  registerPage(app, deps, html);
  for (const { path, headers, bytes } of files) {
    app.get(path, async (request, reply) => {
      await deps.authenticator.authenticate(request, reply);
      return reply.headers(headers).send(bytes);
    });
  }
}

function registerDocument(app: FastifyInstance, deps: ReferenceDeps): void {
  const { authenticator, operations, settings } = deps;
  const documentOf = createDocuments(operations);
  app.get('/api/v2/openapi.json', async (request, reply) => {
    const { domain } = (await authenticator.authenticate(request, reply)).tenant;
    parseQuery(noParameters, queryOf(request.raw.url ?? '').text);
    const pieces = documentOf({ domain, plainHttp: settings.plainHttp(domain) });
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
    return sendPieces(reply, 200, { 'content-length': String(length) }, pieces);
  });
}

const noParameters = closed({});

function registerPage(app: FastifyInstance, deps: ReferenceDeps, html: string): void {
  const etag = `"${hashOf(html)}"`;
  for (const path of ['/docs', '/docs/']) {
    app.get(path, async (request, reply) => {
      await deps.authenticator.authenticate(request, reply);
      const { host } = deps.clientAddressOf(request.raw);
      reply.headers(htmlHeaders({ secure: deps.isSecure(request.raw), host }));
      // Revalidated each time: it names the files of this version.
      reply.headers({ 'cache-control': 'no-cache', etag });
      const known = isKnown(request.headers['if-none-match'], etag);
      return known ? reply.code(304).send() : reply.send(html);
    });
  }
}

/** Reads the page and its files; no other file is served. */
function buildPage(version: string): { html: string; files: readonly StaticFile[] } {
  const files: StaticFile[] = [];
  const add = (name: string, content: Buffer | string): string => {
    const file = staticFile('/docs/', name, Buffer.from(content));
    files.push(file);
    return file.path;
  };
  const addIcon = (svg: string): string => add('icon.svg', svg);
  const facts: Readonly<Record<string, string>> = {
    version,
    'leat.svg': add('leat.svg', ownFile('leat.svg')),
    'swagger-ui.css': add(
      'swagger-ui.css',
      withoutDataUrls(swaggerFile('swagger-ui.css').toString('utf8'), addIcon),
    ),
    'docs.css': add('docs.css', ownFile('docs.css')),
    'swagger-ui-bundle.js': add('swagger-ui-bundle.js', swaggerFile('swagger-ui-bundle.js')),
    'docs.js': add('docs.js', ownFile('docs.js')),
    words: words.map(({ word, meaning }) => `<dt>${word}</dt><dd>${meaning}</dd>`).join('\n'),
  };
  const html = ownFile('docs.html')
    .toString('utf8')
    .replaceAll(/\{\{(.+?)\}\}/g, (_whole, name: string) => {
      const fact = facts[name];
      if (fact === undefined) throw new Error(`docs.html: {{${name}}} has no value`);
      return fact;
    });
  return { html, files };
}

function ownFile(name: string): Buffer {
  return asset(`api/reference/${name}`);
}

function swaggerFile(name: string): Buffer {
  return asset(`swagger-ui-dist/${name}`);
}

/** Returns the OpenAPI document of a tenant as JSON in UTF-8, in pieces. */
type DocumentOf = (tenant: {
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
