import { problem, type TSchema } from '../../schemas/schema.ts';
import { bodyExamples } from './examples.ts';
import type { Operation } from '../operation.ts';
import { describedOperations } from '../operations.ts';
import type { Schema } from '../http/violation.ts';

/** Input of the document; the committed one has the defaults of a trial. */
export interface OpenapiOptions {
  readonly operations: readonly Operation[];
  /** `host[:port]` of the tenant. */
  readonly domain: string;
  readonly plainHttp: boolean;
}

/** Returns the OpenAPI 3.1 document of the management API, from the operations that also serve it. */
export function openapiDocument(options: OpenapiOptions = trialOptions()): object {
  const { operations, domain, plainHttp } = options;
  const base = `${plainHttp ? 'http' : 'https'}://${domain}`;
  const components = new Map<string, unknown>();
  const schemaOf = (schema: TSchema): unknown => reference(schema, components);
  const paths = pathsOf(operations, schemaOf);
  schemaOf(problem);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Leat management API',
      version: '2.0',
      description: 'Event streams, their deliveries, events, users and access.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: `${base}/api/v2` }],
    tags: [...new Set(operations.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: securitySchemes(base, operations),
      headers: { ...rateLimitHeaders, ETag: etagHeader },
      responses: sharedResponses(),
      schemas: Object.fromEntries([...components].toSorted(([a], [b]) => (a < b ? -1 : 1))),
    },
  };
}

function trialOptions(): OpenapiOptions {
  return { operations: describedOperations(), domain: 'localhost:8080', plainHttp: true };
}

type SchemaOf = (schema: TSchema) => unknown;

function pathsOf(operations: readonly Operation[], schemaOf: SchemaOf): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of operations) {
    const path = operation.path.replaceAll(/:([a-z_]+)/g, '{$1}');
    (paths[path] ??= {})[operation.method.toLowerCase()] = describe(operation, schemaOf);
  }
  return paths;
}

function describe(operation: Operation, schemaOf: SchemaOf): object {
  const { operationId, summary, description, tag, scopes, lifecycle, extension, body } = operation;
  const parameters = [
    ...parametersOf(operation.params, 'path', schemaOf),
    ...parametersOf(operation.query, 'query', schemaOf),
    ...parametersOf(operation.headers, 'header', schemaOf),
  ];
  return {
    operationId,
    summary,
    ...(description === undefined ? {} : { description }),
    tags: [tag],
    'x-release-lifecycle': lifecycle,
    ...(extension === true ? { 'x-extension': true } : {}),
    // Any one of the scopes is enough: alternatives, not a list.
    security: scopes.flatMap((scope) => [{ oauth2: [scope] }, { bearer: [scope] }]),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : {
          requestBody: { required: body.required, content: contentOf(operationId, body, schemaOf) },
        }),
    responses: responsesOf(operation, schemaOf),
  };
}

function contentOf(
  operationId: string,
  body: NonNullable<Operation['body']>,
  schemaOf: SchemaOf,
): object {
  const types = { 'application/json': body.schema, ...body.mediaTypes };
  const content = Object.entries(types).map(([type, schema]) => {
    const example = bodyExamples[operationId]?.[type];
    return [type, { schema: schemaOf(schema), ...(example === undefined ? {} : { example }) }];
  });
  return Object.fromEntries(content);
}

function parametersOf(
  schema: TSchema | undefined,
  location: 'path' | 'query' | 'header',
  schemaOf: SchemaOf,
): object[] {
  const { properties = {}, required = [] }: Schema = schema ?? {};
  return Object.entries(properties).map(([name, parameter]) => {
    const { description, ...rest } = parameter;
    return {
      name,
      in: location,
      required: required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema: schemaOf(rest),
    };
  });
}

function responsesOf(operation: Operation, schemaOf: SchemaOf): object {
  const { success, response, responseType = 'application/json' } = operation;
  const content =
    response === undefined ? {} : { content: { [responseType]: { schema: schemaOf(response) } } };
  const hasEtag = operation.method === 'GET' && responseType === 'application/json';
  const headers = hasEtag ? { ...headerReferences, ...etagReference } : headerReferences;
  const responses: Record<string, object> = {
    [success]: { description: 'Success', headers, ...content },
    ...(hasEtag && { 304: { $ref: '#/components/responses/304' } }),
  };
  if (operation.response200 !== undefined) {
    const schema = schemaOf(operation.response200);
    responses[200] = {
      description: 'Nothing was changed',
      headers: headerReferences,
      content: { [responseType]: { schema } },
    };
  }
  for (const status of errorsOf(operation)) {
    responses[status] = { $ref: `#/components/responses/${status}` };
  }
  return responses;
}

/** Returns the error statuses of an operation: its own, and those of the checks of its requests. */
function errorsOf({ body, errors = [] }: Operation): number[] {
  const ofBody = body === undefined ? [] : [413, 415];
  return [...alwaysPossible, ...ofBody, ...errors];
}

const alwaysPossible = [400, 401, 403, 405, 429, 500, 503];

const meanings: Readonly<Record<number, string>> = {
  400: 'The path, the query or the body is not valid',
  401: 'No valid token, or its client is not global',
  403: 'The token lacks the scope',
  404: 'It does not exist',
  405: 'The path has no such method',
  409: 'Its state does not allow this',
  410: 'It is no longer available',
  413: 'The body is too large',
  415: 'The media type is not accepted',
  429: 'Too many requests',
  500: 'An error of the service',
  503: 'The store is unreachable, or the service is shutting down',
};

/** Returns the responses that operations share, by status. */
function sharedResponses(): object {
  const content = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } };
  const errors = Object.entries(meanings).map(([status, description]) => [
    status,
    { description, headers: headerReferences, content },
  ]);
  return { 304: notModified, ...Object.fromEntries(errors) };
}

const etagHeader = {
  description: 'Names the body, `as_of` not counted, for `If-None-Match`',
  schema: { type: 'string' },
};

const rateLimitHeaders = {
  'X-RateLimit-Limit': header('Size of the bucket'),
  'X-RateLimit-Remaining': header('Remaining requests in the bucket'),
  'X-RateLimit-Reset': header('Unix time in seconds at which the bucket is full again'),
};

const headerReferences = Object.fromEntries(
  Object.keys(rateLimitHeaders).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
);

const etagReference = { ETag: { $ref: '#/components/headers/ETag' } };

const notModified = {
  description: 'What `If-None-Match` names is what the body would be',
  headers: { ...headerReferences, ...etagReference },
};

function header(description: string): object {
  return { description, schema: { type: 'integer' } };
}

function securitySchemes(base: string, operations: readonly Operation[]): object {
  const scopes = [...new Set(operations.flatMap((operation) => operation.scopes))];
  return {
    oauth2: {
      type: 'oauth2',
      description: 'Send the audience `/api/v2/` with client_id and client_secret.',
      flows: {
        clientCredentials: {
          tokenUrl: `${base}/oauth/token`,
          scopes: Object.fromEntries(scopes.map((scope) => [scope, scope])),
        },
      },
    },
    bearer: {
      type: 'http',
      scheme: 'bearer',
      bearerFormat: 'JWT',
      description: 'An access token of the token endpoint, or of a trusted issuer.',
    },
  };
}

/** Moves the named parts of a schema into the components and refers to them. */
function reference(schema: unknown, components: Map<string, unknown>): unknown {
  if (Array.isArray(schema)) return schema.map((item) => reference(item, components));
  if (typeof schema !== 'object' || schema === null) return schema;
  const { $id, ...rest } = schema as Record<string, unknown>;
  const plain = (): object =>
    Object.fromEntries(
      Object.entries(rest).map(([name, part]) => [name, reference(part, components)]),
    );
  if (typeof $id !== 'string') return plain();
  if (!components.has($id)) {
    components.set($id, undefined);
    components.set($id, plain());
  }
  return { $ref: `#/components/schemas/${$id}` };
}
