import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { services as commands } from '../../src/program/services.ts';
import {
  assertWithoutRegistry,
  configOf,
  drainSecondsMax,
  instructionsOf,
  messagePort,
  read,
  readYaml,
  root,
  secondsOf,
  skipWithout,
  wordsOf,
} from './fixture.ts';

interface Compose {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly networks?: Readonly<Record<string, ComposeNetwork | null>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

interface ComposeService {
  readonly image: string;
  readonly build?: string;
  readonly user?: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string | number>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly tmpfs?: readonly string[];
  readonly networks?:
    | readonly string[]
    | Readonly<Record<string, { readonly ipv4_address: string }>>;
  readonly depends_on?:
    | readonly string[]
    | Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly stop_grace_period?: string;
  readonly restart?: string;
}

interface ComposeNetwork {
  readonly internal?: boolean;
  readonly ipam?: { readonly config: readonly { readonly subnet: string }[] };
}

const single = readYaml<Compose>('compose.yaml');
const pair = readYaml<Compose>('deploy/postgres/compose.yaml');
const example = read('deploy/postgres/example.env');
const dockerfile = instructionsOf(read('Dockerfile'));
/** Values for the variables of `.env`, of the kind that the example asks for. */
const env: Readonly<Record<string, string>> = {
  LEAT_TENANT_DOMAIN: 'localhost:8443',
  LEAT_SECRET_KEY: Buffer.alloc(32, 1).toString('base64'),
  LEAT_BOOTSTRAP_CLIENT_SECRET: 'a1'.repeat(24),
  DATABASE_PASSWORD: 'b2'.repeat(24),
  REPLICATION_PASSWORD: 'c3'.repeat(24),
  POSTGRES_PASSWORD: 'd4'.repeat(24),
};
const both = [
  ['compose.yaml', single],
  ['deploy/postgres/compose.yaml', pair],
] as const;
const nodes = ['leat-1', 'leat-2'] as const;

describe('both compose files', () => {
  for (const [path, compose] of both) {
    const services = Object.entries(compose.services);

    test(`${path}: images name no registry, and published ports are on loopback`, () => {
      for (const [name, { image, ports = [] }] of services) {
        assertWithoutRegistry(image);
        for (const port of ports) assert.match(port, /^127\.0\.0\.1:[0-9]+:[0-9]+$/, name);
      }
    });

    test(`${path}: no service has capabilities or can gain privileges`, () => {
      for (const [name, service] of services) {
        assert.deepEqual(service.cap_drop, ['ALL'], name);
        assert.deepEqual(service.security_opt, ['no-new-privileges:true'], name);
      }
    });

    test(`${path}: every variable of Leat is a setting with a valid value, and no other value is needed`, () => {
      const leats = services.filter(([, { image }]) => image === 'leat');
      assert.ok(leats.length > 0);
      for (const [, { environment = {} }] of leats) {
        const given = compose === pair ? env : {};
        configOf(
          Object.fromEntries(
            Object.entries(environment).map(([name, text]) => [name, filled(String(text), given)]),
          ),
        );
      }
    });

    test(`${path}: Leat has a read-only root and longer to stop than a drain takes`, () => {
      for (const [, service] of services.filter(([, { image }]) => image === 'leat')) {
        assert.equal(service.read_only, true);
        assert.ok(service.tmpfs?.includes('/tmp'));
        assert.ok(secondsOf(service.stop_grace_period ?? '') > drainSecondsMax);
        for (const word of service.command ?? []) assert.ok(commands.has(word), word);
        assert.ok(existsSync(join(root, path, '..', service.build ?? '', 'Dockerfile')));
      }
    });

    test(`${path}: a process that ended is started again`, () => {
      for (const [name, { restart }] of services) assert.equal(restart, 'unless-stopped', name);
    });

    test(`${path}: every mounted file exists, and every volume and network is declared`, () => {
      for (const [name, { volumes = [], networks = [] }] of services) {
        for (const volume of volumes) {
          const [source = ''] = volume.split(':');
          if (source.startsWith('.')) assert.ok(existsSync(join(root, path, '..', source)), volume);
          else assert.ok(source in compose.volumes, volume);
        }
        const joined = Array.isArray(networks) ? (networks as string[]) : Object.keys(networks);
        for (const network of joined) assert.ok(network in (compose.networks ?? {}), name);
      }
    });

    test(
      `${path}: docker compose accepts it`,
      { skip: skipWithout('docker', 'compose', 'version') },
      async (t) => {
        const folder = await mkdtemp(join(tmpdir(), 'leat-compose-'));
        t.after(() => rm(folder, { recursive: true }));
        const file = join(folder, 'env');
        await writeFile(
          file,
          Object.entries(env)
            .map((pairOf) => pairOf.join('='))
            .join('\n'),
        );
        const words = [
          'compose',
          '--env-file',
          file,
          '--file',
          join(root, path),
          'config',
          '--quiet',
        ];
        const { status, stderr } = spawnSync('docker', words, { encoding: 'utf8' });
        assert.equal(status, 0, stderr);
      },
    );
  }
});

describe('compose.yaml', () => {
  const leat = single.services['leat'];

  test('the published ports are those of the image, and the data are in its volume', () => {
    const ports = leat?.ports?.map((port) => port.split(':').at(-1));
    assert.deepEqual(ports, [String(configOf({}).port), String(messagePort())]);
    assert.deepEqual(leat?.volumes, [
      `data:${dockerfile.find(({ name }) => name === 'VOLUME')?.text}`,
    ]);
  });

  test('the default domain is the published address, so that it works without TLS on this machine', () => {
    const texts = leat?.environment ?? {};
    const { tenantDomain } = configOf({
      LEAT_TENANT_DOMAIN: filled(String(texts['LEAT_TENANT_DOMAIN']), {}),
    });
    assert.equal(tenantDomain, 'localhost:8080');
  });
});

describe('deploy/postgres/compose.yaml', () => {
  const [db1, db2] = [pair.services['db-1'], pair.services['db-2']];

  test('a variable of .env that is missing stops the start, and the example names each of them', () => {
    const texts = read('deploy/postgres/compose.yaml');
    const required = [...texts.matchAll(/\$\{(?<name>[A-Z_]+):\?/g)].map(
      ({ groups }) => groups?.['name'],
    );
    const named = [...example.matchAll(/^(?<name>[A-Z_]+)=/gm)].map(
      ({ groups }) => groups?.['name'],
    );
    assert.deepEqual(new Set(required), new Set(named));
    assert.deepEqual(new Set(named), new Set(Object.keys(env)));
  });

  test('the example holds no secret', () => {
    const values = [...example.matchAll(/^(?<name>[A-Z_]+)=(?<value>.*)$/gm)];
    const filledIn = values.filter(({ groups }) => groups?.['value'] !== '');
    assert.deepEqual(
      filledIn.map(([line]) => line),
      ['LEAT_TENANT_DOMAIN=localhost:8443'],
    );
  });

  test('the nodes are alike, and name both databases with a session that accepts writes', () => {
    const [first, second] = nodes.map((name) => pair.services[name]);
    assert.deepEqual(first?.environment, second?.environment);
    const store = String(first?.environment?.['LEAT_STORE']);
    assert.match(store, /@db-1,db-2\/leat\?target_session_attrs=read-write$/);
  });

  test('the nodes start when both databases are healthy, as no commit ends without the standby', () => {
    for (const name of nodes) {
      assert.deepEqual(pair.services[name]?.depends_on, {
        'db-1': { condition: 'service_healthy' },
        'db-2': { condition: 'service_healthy' },
      });
    }
  });

  test('the databases differ in their name and volume only, and are in a network without a way out', () => {
    const without = (service: ComposeService | undefined): object => ({
      ...service,
      hostname: '',
      environment: { ...service?.environment, NAME: '' },
      volumes: service?.volumes?.filter((volume) => !volume.startsWith('db-')),
    });
    assert.deepEqual(without(db1), without(db2));
    assert.deepEqual([db1?.environment?.['NAME'], db2?.environment?.['NAME']], ['db-1', 'db-2']);
    assert.equal(db1?.user, 'postgres');
    assert.deepEqual(db1.networks, ['databases']);
    assert.equal(pair.networks?.['databases']?.internal, true);
  });

  test('the health check of a node is the file of the image, at the path for readiness', () => {
    const [, file] = wordsOf(dockerfile, 'HEALTHCHECK');
    for (const name of nodes) {
      assert.deepEqual(pair.services[name]?.healthcheck?.test, ['CMD', 'node', file, '/readyz']);
    }
  });

  test('Leat trusts the address of the proxy, and no other one', () => {
    const networks = pair.services['proxy']?.networks ?? {};
    const address = Array.isArray(networks) ? '' : Reflect.get(networks, 'front').ipv4_address;
    for (const name of nodes) {
      assert.equal(pair.services[name]?.environment?.['LEAT_TRUST_PROXY'], address);
    }
  });

  test('the proxy leaves out a node by its health check alone', () => {
    const text = read('deploy/postgres/Caddyfile');
    assert.match(text, /health_uri \/readyz/);
    // Caddy up to 2.11.1 counts a body that it has lost itself against the node that runs.
    assert.doesNotMatch(text, /fail_duration/);
  });

  test('the proxy sends requests to every node at its port', () => {
    const upstreams = /reverse_proxy (?<list>.+) \{/.exec(
      read('deploy/postgres/Caddyfile'),
    )?.groups;
    assert.equal(
      upstreams?.['list'],
      nodes.map((name) => `${name}:${configOf({}).port}`).join(' '),
    );
  });

  test('Caddy accepts the Caddyfile', { skip: skipWithout('caddy', 'version') }, async (t) => {
    const home = await mkdtemp(join(tmpdir(), 'leat-caddy-'));
    t.after(() => rm(home, { recursive: true }));
    const file = join(home, 'Caddyfile');
    await cp(`${root}deploy/postgres/Caddyfile`, file);
    const options = {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], HOME: home, LEAT_TENANT_DOMAIN: 'localhost:8443' },
    } as const;
    const words = ['validate', '--adapter', 'caddyfile', '--config', file];
    const { status, stderr } = spawnSync('caddy', words, options);
    assert.equal(status, 0, stderr);
  });

  for (const name of ['database.sh', 'primary.sh']) {
    const file = `${root}deploy/postgres/${name}`;
    test(`${name} is executable and valid syntax of sh`, () => {
      assert.ok((statSync(file).mode & 0o111) === 0o111);
      assert.equal(spawnSync('sh', ['-n', file]).status, 0);
    });
  }
});

/** Fills variables in as compose does: `${NAME:-default}` and `${NAME:?message}`. */
function filled(text: string, values: Readonly<Record<string, string>>): string {
  return text.replaceAll(/\$\{(?<name>[A-Z_]+):(?<kind>[-?])(?<rest>[^}]*)\}/g, (...found) => {
    const { name = '', kind, rest = '' } = found.at(-1) as Record<string, string>;
    const value = values[name];
    assert.ok(kind === '-' || value !== undefined, name);
    return value ?? rest;
  });
}
