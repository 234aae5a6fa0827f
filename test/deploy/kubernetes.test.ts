import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readConfig } from '../../src/config.ts';
import { services as commands } from '../../src/program/services.ts';
import { createTempStore, type Running, startLeat, type TempStore } from '../helpers/leat.ts';
import {
  assertWithoutRegistry,
  configOf,
  drainSecondsMax,
  instructionsOf,
  read,
  readYaml,
  readYamls,
  root,
  skipWithout,
} from './fixture.ts';

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Labels };
}

type Labels = Readonly<Record<string, string>>;

interface Workload extends Manifest {
  readonly spec: {
    readonly replicas: number;
    readonly selector: { readonly matchLabels: Labels };
    readonly template: { readonly metadata: { readonly labels: Labels }; readonly spec: PodSpec };
  };
}

interface PodSpec {
  readonly enableServiceLinks: boolean;
  readonly automountServiceAccountToken: boolean;
  readonly terminationGracePeriodSeconds: number;
  readonly restartPolicy?: string;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly containers: readonly Container[];
  readonly volumes: readonly { readonly name: string }[];
}

interface Container {
  readonly image: string;
  readonly args: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly lifecycle: {
    readonly preStop: { readonly exec: { readonly command: readonly string[] } };
  };
  readonly resources: { readonly limits: Labels; readonly requests: Labels };
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
  readonly timeoutSeconds: number;
}

interface Service extends Manifest {
  readonly spec: {
    readonly selector: Labels;
    readonly ports: readonly { readonly targetPort: string; readonly port: number }[];
  };
}

const folder = 'deploy/kubernetes';
const variants = [
  { kustomization: folder, workload: 'deployment.yaml', services: 'service.yaml' },
  {
    kustomization: `${folder}/sqlite`,
    workload: 'stateful-set.yaml',
    services: 'stateful-set.yaml',
  },
] as const;
const settings = readYaml<Manifest & { readonly data: Labels }>(`${folder}/settings.yaml`).data;
const secret = readYaml<Manifest & { readonly stringData: Labels }>(
  `${folder}/secret.example.yaml`,
);
/** In place of those of the example. */
const secrets = {
  LEAT_STORE:
    'postgres://leat:a1b2@db-1,db-2/leat?target_session_attrs=read-write&sslmode=verify-full',
  LEAT_SECRET_KEY: Buffer.alloc(32, 1).toString('base64'),
  LEAT_BOOTSTRAP_CLIENT_SECRET: 'a1'.repeat(24),
};

let tempStore: TempStore;
let leat: Running;

before(async () => {
  tempStore = await createTempStore();
  leat = await startLeat(tempStore);
});
after(async () => {
  await leat.kill();
  await tempStore.remove();
});

describe('the Kubernetes manifests', () => {
  for (const { kustomization, workload, services } of variants) {
    const found = readYamls<Workload>(`${kustomization}/${workload}`).find(isWorkload);
    assert.ok(found);
    const { selector, template, replicas } = found.spec;
    const pod = template.spec;
    const [container, ...others] = pod.containers;
    assert.ok(container !== undefined && others.length === 0);

    test(`${kustomization}: the kustomization lists every manifest of its folder but the example`, () => {
      const { resources } = readYaml<{ resources: string[] }>(
        `${kustomization}/kustomization.yaml`,
      );
      const files = globSync('*.yaml', { cwd: join(root, kustomization) }).filter(
        (name) => name !== 'kustomization.yaml' && !name.includes('example'),
      );
      assert.deepEqual(
        resources.filter((name) => name.endsWith('.yaml')).toSorted(),
        files.toSorted(),
      );
    });

    test(
      `${kustomization}: kubectl builds it`,
      { skip: skipWithout('kubectl', 'version', '--client') },
      () => {
        const words = ['kustomize', join(root, kustomization)];
        const { status, stdout, stderr } = spawnSync('kubectl', words, { encoding: 'utf8' });
        assert.equal(status, 0, stderr);
        assert.match(stdout, /kind: Namespace/);
        const named = stdout.match(/^ {2}namespace: leat$/gm) ?? [];
        assert.equal(named.length, (stdout.match(/^kind:/gm) ?? []).length - 1);
      },
    );

    test(`${kustomization}: labels select the pods`, () => {
      assert.deepEqual(template.metadata.labels, selector.matchLabels);
      for (const service of readYamls<Service>(`${kustomization}/${services}`)) {
        if (service.kind !== 'Service') continue;
        assert.deepEqual(service.spec.selector, selector.matchLabels);
        for (const { targetPort } of service.spec.ports) portOf(container, targetPort);
      }
    });

    test(`${kustomization}: the settings are accepted, and the ports are those of the program`, () => {
      const config = configOf({ ...imageSettings(), ...variablesOf(container) });
      assert.equal(portOf(container, 'http'), config.port);
      if (config.metricsPort !== undefined) {
        assert.equal(portOf(container, 'metrics'), config.metricsPort);
      }
      assert.equal(config.store.engine === 'sqlite' ? 1 : 2, replicas);
      if (config.store.engine !== 'sqlite') return;
      const { file } = config.store;
      assert.equal(
        dirname(file ?? ''),
        container.volumeMounts.find(({ name }) => name === 'data')?.mountPath,
      );
    });

    test(`${kustomization}: no variables of services reach Leat, of which LEAT_PORT would stop the start`, () => {
      const reading = readConfig({ LEAT_PORT: 'tcp://10.96.0.10:80' });
      assert.ok('problems' in reading);
      assert.equal(pod.enableServiceLinks, false);
    });

    test(`${kustomization}: the image and its command are those of the Dockerfile`, () => {
      assertWithoutRegistry(container.image);
      for (const word of container.args) assert.ok(commands.has(word), word);
      const user = instructionsOf(read('Dockerfile')).find(({ name }) => name === 'USER')?.text;
      const { runAsUser, runAsGroup } = pod.securityContext;
      assert.equal(`${String(runAsUser)}:${String(runAsGroup)}`, user);
    });

    test(`${kustomization}: the pod fits the restricted standard, with a read-only root`, () => {
      assert.equal(pod.automountServiceAccountToken, false);
      assert.equal(pod.securityContext['runAsNonRoot'], true);
      assert.deepEqual(pod.securityContext['seccompProfile'], { type: 'RuntimeDefault' });
      assert.deepEqual(container.securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      assert.ok(container.volumeMounts.some(({ mountPath }) => mountPath === '/tmp'));
    });

    test(`${kustomization}: the grace period is longer than preStop and a drain`, () => {
      const [command, seconds] = container.lifecycle.preStop.exec.command;
      assert.equal(command, 'sleep');
      assert.ok(pod.terminationGracePeriodSeconds > Number(seconds) + drainSecondsMax);
    });

    test(`${kustomization}: a process that ended is started again`, () => {
      // The default is Always.
      assert.equal(pod.restartPolicy, undefined);
    });

    test(`${kustomization}: each probe gets a 200 from a running service`, async () => {
      const { startupProbe, livenessProbe, readinessProbe } = container;
      const probes = [startupProbe, livenessProbe, readinessProbe];
      const paths = probes.map(({ httpGet }) => httpGet.path);
      assert.deepEqual(paths, ['/healthz', '/healthz', '/readyz']);
      for (const { httpGet, timeoutSeconds } of probes) {
        assert.equal(portOf(container, httpGet.port), configOf({}).port);
        const headers = { host: '10.244.0.7:8080' };
        assert.equal((await fetch(leat.url + httpGet.path, { headers })).status, 200);
        // The check of the store has 3 s.
        assert.ok(timeoutSeconds > 3);
      }
    });

    test(`${kustomization}: memory is limited, the processor is not`, () => {
      assert.deepEqual(Object.keys(container.resources.limits), ['memory']);
      assert.deepEqual(Object.keys(container.resources.requests).toSorted(), ['cpu', 'memory']);
    });
  }

  test('the secret has what the settings lack, and Leat refuses the values of the example', () => {
    assert.deepEqual(Object.keys(secret.stringData), Object.keys(secrets));
    for (const name of Object.keys(secrets)) {
      const text = secret.stringData[name];
      const reading = readConfig({ ...settings, ...secrets, [name]: text });
      assert.ok('problems' in reading, name);
      assert.match(reading.problems.join('\n'), new RegExp(name));
    }
  });

  test('the metrics are open to the namespace of Prometheus only, and the disruption budget selects the pods', () => {
    interface Selecting extends Manifest {
      readonly spec: {
        readonly selector?: unknown;
        readonly podSelector?: unknown;
        readonly ingress?: readonly {
          readonly from?: unknown;
          readonly ports: readonly { readonly port: string }[];
        }[];
      };
    }
    const selector = { matchLabels: { 'app.kubernetes.io/name': 'leat' } };
    const policy = readYaml<Selecting>(`${folder}/network.yaml`).spec;
    assert.deepEqual(policy.podSelector, selector);
    const open = policy.ingress?.filter(({ from }) => from === undefined) ?? [];
    assert.deepEqual(
      open.flatMap(({ ports }) => ports.map(({ port }) => port)),
      ['http'],
    );
    assert.deepEqual(readYaml<Selecting>(`${folder}/disruption.yaml`).spec.selector, selector);
  });

  test('every file of the folder is valid YAML with a kind and a name', () => {
    for (const path of globSync(`${folder}/**/*.yaml`, { cwd: root })) {
      for (const { apiVersion, kind, metadata } of readYamls<Manifest>(path)) {
        assert.ok(apiVersion !== '' && kind !== '', path);
        if (basename(path) !== 'kustomization.yaml') assert.ok(metadata.name, path);
      }
    }
  });
});

function isWorkload({ kind }: Manifest): boolean {
  return kind === 'Deployment' || kind === 'StatefulSet';
}

/** Returns the number of a named port; fails when the container has none of the name. */
function portOf(container: Container, name: string): number {
  const port = container.ports.find((each) => each.name === name);
  assert.ok(port !== undefined, name);
  return port.containerPort;
}

function variablesOf(container: Container): Labels {
  if (container.env === undefined) return { ...settings, ...secrets };
  return Object.fromEntries(container.env.map(({ name, value }) => [name, value]));
}

/** Returns the variables that the image sets. */
function imageSettings(): Labels {
  const instruction = instructionsOf(read('Dockerfile')).find(({ name }) => name === 'ENV');
  const pairs = instruction?.text.split(' ').map((text) => text.split('=')) ?? [];
  return Object.fromEntries(pairs) as Labels;
}
