import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { Compile } from 'typebox/compile';
import { createDocuments } from '../../../src/api/reference/reference.ts';
import { openapiDocument } from '../../../src/api/reference/openapi.ts';
import { describedOperations } from '../../../src/api/operations.ts';
import { managementScopes } from '../../../src/auth/scopes.ts';
import { openApiFixture, type ApiFixture } from '../fixture.ts';

interface Document {
  readonly openapi: string;
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: {
    readonly schemas: object;
    readonly securitySchemes: {
      readonly oauth2: {
        readonly flows: {
          readonly clientCredentials: { readonly scopes: object; tokenUrl: string };
        };
      };
    };
  };
}

interface Described {
  readonly operationId: string;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly responses: object;
  readonly 'x-release-lifecycle': string;
}

const document = JSON.parse(JSON.stringify(openapiDocument())) as Document;
const described = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

describe('the OpenAPI document', () => {
  test('docs/openapi.json is up to date: npm run openapi writes it', () => {
    const committed = readFileSync(new URL('../../../docs/openapi.json', import.meta.url), 'utf8');
    assert.ok(
      committed === `${JSON.stringify(openapiDocument(), undefined, 2)}\n`,
      'docs/openapi.json is out of date, run npm run openapi',
    );
  });

  test('the document has OpenAPI version 3.1 and API version 2.0', () => {
    assert.match(document.openapi, /^3\.1\./);
    assert.equal(document.info.version, '2.0');
  });

  test('every operation is in the document once, with a unique id', () => {
    const operations = describedOperations();
    assert.equal(described.length, operations.length);
    assert.equal(new Set(operations.map(({ operationId }) => operationId)).size, operations.length);
  });

  test('every schema of a request compiles: the program does that at the first request', () => {
    const schemas = describedOperations().flatMap(({ params, query, body }) => [
      params,
      query,
      body?.schema,
      ...Object.values(body?.mediaTypes ?? {}),
    ]);
    for (const schema of schemas) {
      if (schema !== undefined) assert.doesNotThrow(() => Compile(schema), JSON.stringify(schema));
    }
  });

  test('every operation has its release lifecycle and its scopes', () => {
    const stages = ['Early Access', 'Generally Available', 'Deprecated', 'Planned', 'Beta'];
    for (const { operation, path } of described) {
      assert.ok(stages.includes(operation['x-release-lifecycle']), path);
      const scopes = operation.security.flatMap((scheme) => Object.values(scheme).flat());
      assert.ok(scopes.length > 0, path);
      for (const scope of scopes) assert.ok(managementScopes.includes(scope), `${path} ${scope}`);
    }
  });

  test('every path parameter is documented', () => {
    for (const { path, operation } of described) {
      const names = [...path.matchAll(/\{([a-z_]+)\}/g)].map((match) => match[1]);
      const parameters = operation.parameters?.filter((parameter) => parameter.in === 'path') ?? [];
      assert.deepEqual(
        parameters.map(({ name }) => name),
        names,
        path,
      );
    }
  });

  test('every operation has the statuses that all operations share', () => {
    for (const { operation, path } of described) {
      for (const status of ['401', '403', '405', '429', '500', '503']) {
        assert.ok(status in operation.responses, `${path} ${status}`);
      }
    }
  });

  test('every reference resolves', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)];
    assert.ok(references.length > 0);
    for (const [, pointer = ''] of references) {
      const target = pointer
        .split('/')
        .reduce<unknown>((part, name) => (part as Record<string, unknown>)[name], document);
      assert.ok(target !== undefined, pointer);
    }
  });

  test('schemas have no $id and no undefined value', () => {
    assert.doesNotMatch(JSON.stringify(document), /"\$id"/);
    for (const [name, schema] of Object.entries(document.components.schemas)) {
      assert.equal(typeof schema, 'object', name);
    }
  });
});

describe('the documents of tenants', () => {
  const documentOf = createDocuments(describedOperations());
  const named = (domain: string) => documentOf({ domain, plainHttp: true });

  test('documents: each has the domain of its tenant', () => {
    for (const [domain, plainHttp] of [
      ['localhost:8080', true],
      ['leat.example.com', false],
    ] as const) {
      const text = Buffer.concat(documentOf({ domain, plainHttp })).toString('utf8');
      const operations = describedOperations();
      assert.equal(text, JSON.stringify(openapiDocument({ operations, domain, plainHttp })));
    }
  });

  test('documents: those of two tenants share all bytes but the domain', () => {
    const [one, other] = [named('one.example.com'), named('other.example.com')];
    const own = one.filter((piece) => !other.includes(piece));
    assert.deepEqual([...new Set(own.map(String))], ['one.example.com']);
    assert.ok(own.length > 1);
  });
});

describe('the served document', () => {
  let fixture: ApiFixture;
  before(async () => {
    fixture = await openApiFixture();
  });
  after(() => fixture.close());

  test('the document needs no token and names the tenant', async () => {
    const { status, body, headers } = await fixture.raw('GET', '/api/v2/openapi.json');
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'application/json; charset=utf-8');
    assert.deepEqual(body.servers, [{ url: 'https://leat.example.com/api/v2' }]);
    const { tokenUrl } = body.components.securitySchemes.oauth2.flows.clientCredentials;
    assert.equal(tokenUrl, 'https://leat.example.com/oauth/token');
    assert.deepEqual(Object.keys(body.paths), Object.keys(document.paths));
  });

  test('responses match the schemas of the document', async () => {
    const configuration = {
      webhook_endpoint: 'https://hooks.example.net/',
      webhook_authorization: { method: 'basic', username: 'a', password: 'b' },
    };
    const body = {
      destination: { type: 'webhook', configuration },
      subscriptions: [{ event_type: 'a.b' }],
    };
    const created = await fixture.send('POST', '/event-streams', body);
    const path = `/event-streams/${created.body.id}`;
    const range = { date_from: '2026-03-01T09:30:00Z' };
    const started = await fixture.send('POST', `${path}/replay`, range);
    const bodies: [operationId: string, body: unknown][] = [
      ['createEventStream', created.body],
      ['readEventStream', (await fixture.send('GET', path)).body],
      ['updateEventStream', (await fixture.send('PATCH', path, {})).body],
      ['listEventStreams', (await fixture.send('GET', '/event-streams?take=1')).body],
      ['readSigningSecret', (await fixture.send('GET', `${path}/signing-secret`)).body],
      ['rotateSigningSecret', (await fixture.send('POST', `${path}/signing-secret/rotate`)).body],
      ['startReplay', started.body],
      ['readReplay', (await fixture.send('GET', `${path}/replay/${started.body.id}`)).body],
      ['sendTestEvent', (await fixture.send('POST', `${path}/test`, { event_type: 'a.b' })).body],
      ['readEventStreamStats', (await fixture.send('GET', `${path}/stats`)).body],
      ['listEventDeliveries', (await fixture.send('GET', `${path}/deliveries`)).body],
      ['listEventDeliveries', (await fixture.send('GET', `${path}/deliveries?take=1`)).body],
      ['redeliverEvents', (await fixture.send('POST', `${path}/redeliver`)).body],
      ['publishEvents', (await fixture.send('POST', '/events', { type: 'a.b', data: {} })).body],
      ['publishEvents', (await fixture.send('POST', '/events', [{ type: 'a.b', data: {} }])).body],
      ['listActions', (await fixture.send('GET', '/actions/actions')).body],
    ];
    for (const [operationId, sent] of bodies) {
      const operation = describedOperations().find((one) => one.operationId === operationId);
      assert.ok(operation?.response, operationId);
      assert.ok(Compile(operation.response).Check(sent), `${operationId} ${JSON.stringify(sent)}`);
    }
  });
});
