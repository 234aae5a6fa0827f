import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import {
  freePort,
  createTempStore,
  startLeat,
  waitFor,
  type TempStore,
  type Running,
} from '../helpers/leat.ts';
import { type Exposition, familyName, readExposition } from '../helpers/prometheus.ts';
import { createStream, freshType, publish } from '../helpers/api-client.ts';

/** The metrics in `docs/` against those of the running program. */

let tempStore: TempStore;
let leat: Running;
let endpoint: Endpoint;
let reported: Exposition;

before(async () => {
  tempStore = await createTempStore();
  endpoint = await startEndpoint();
  const port = String(await freePort());
  leat = await startLeat(tempStore, { LEAT_METRICS_PORT: port });
  const type = freshType();
  await createStream(leat, endpoint.url, { types: [type] });
  await publish(leat, type);
  reported = await waitFor('a delivery', async () => {
    const response = await fetch(`http://127.0.0.1:${port}/metrics`);
    const text = readExposition(await response.text());
    const delivered = { kind: 'first', outcome: 'delivered' };
    const isNamed = text.samples('leat_stream_info').length > 0;
    return isNamed && text.value('leat_attempts_total', delivered) === 1 && text;
  });
});
after(async () => {
  await endpoint.close();
  await leat.kill();
  await tempStore.remove();
});

const read = (name: string): Promise<string> =>
  readFile(new URL(`../../docs/${name}`, import.meta.url), 'utf8');

/** Returns the distinct names of metrics in a text. */
function namesIn(text: string): string[] {
  const found = text.matchAll(/\b(?:leat|process|nodejs)_[a-z0-9_]+\b/g);
  return [...new Set([...found].map(([name]) => name))];
}

function assertKnown(text: string, where: string): void {
  const names = namesIn(text);
  assert.ok(names.length > 0);
  for (const name of names) {
    assert.ok(reported.families.has(familyName(reported.families, name)), `${where} has ${name}`);
  }
}

interface Row {
  readonly name: string;
  readonly type: string;
  readonly labels: readonly string[];
  readonly nodes: string;
}

/** Returns the rows of the tables of metrics. */
function rowsOf(markdown: string): Row[] {
  const cells = /^\| `(leat_\w+)` *\| (\w+) *\| ([^|]+?) *\| (\S+) *\| [^|]+\|$/gm;
  return [...markdown.matchAll(cells)].map(([, name = '', type = '', labels = '', nodes = '']) => ({
    name,
    type,
    labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label = '']) => label),
    nodes,
  }));
}

describe('docs/metrics.md', () => {
  test('docs/metrics.md has a row for each metric of Leat, with its type, and for no other', async () => {
    const rows = rowsOf(await read('metrics.md'));
    const exposed = [...reported.families.values()].filter(({ name }) => name.startsWith('leat_'));
    assert.deepEqual(
      rows.map(({ name, type }) => `${name} ${type}`).toSorted(),
      exposed.map(({ name, type }) => `${name} ${type}`).toSorted(),
    );
    for (const { name, nodes } of rows) assert.match(nodes, /^(?:sum|max|–)$/, name);
  });

  test('docs/metrics.md names the labels that each metric has', async () => {
    for (const { name, type, labels } of rowsOf(await read('metrics.md'))) {
      const [sample] = reported.samples(type === 'histogram' ? `${name}_count` : name);
      assert.deepEqual(Object.keys(sample?.labels ?? {}).toSorted(), labels.toSorted(), name);
    }
  });

  test('docs/metrics.md names existing metrics only', async () => {
    const text = await read('metrics.md');
    assertKnown(text, 'metrics.md');
  });

  test('docs/metrics.md names each alert of the rules file', async () => {
    const alerts = (await read('alerts.yml')).matchAll(/^ +- alert: (\w+)$/gm);
    const named = (await read('metrics.md')).matchAll(/^\| `(Leat\w+)` /gm);
    const rules = [...alerts].map(([, name]) => name);
    assert.equal(rules.length, 9);
    assert.deepEqual(
      [...named].map(([, name]) => name),
      rules,
    );
  });
});

describe('docs/alerts.yml', () => {
  test('docs/alerts.yml uses existing metrics only', async () => {
    const lines = (await read('alerts.yml')).split('\n');
    const expressions = lines.filter((line, index) => {
      return /^ +expr: /.test(line) || /^ +expr: >-$/.test(lines[index - 1] ?? '');
    });
    assert.ok(expressions.length >= 8);
    assertKnown(expressions.join('\n'), 'alerts.yml');
  });

  test('docs/alerts.yml has every required field of each rule', async () => {
    const [head = '', ...rules] = (await read('alerts.yml')).split(/^ +- alert: /m);
    assert.match(head, /^groups:\n +- name: leat\n +rules:\n/m);
    for (const rule of rules) {
      assert.match(rule, /^\w+\n +expr: \S/);
      assert.match(rule, /\n +labels:\n +severity: (?:critical|warning)\n/);
      assert.match(rule, /\n +annotations:\n +summary: \S.*\n +description: '.+'\n/);
      assert.ok(!rule.includes('\t'));
    }
  });
});

describe('docs/grafana.json', () => {
  interface Panel {
    readonly id: number;
    readonly type: string;
    readonly title: string;
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number };
    readonly datasource?: { readonly uid: string };
    readonly targets?: readonly { readonly expr: string }[];
  }
  interface Dashboard {
    readonly __inputs: readonly { readonly name: string; readonly pluginId: string }[];
    readonly schemaVersion: number;
    readonly panels: readonly Panel[];
    readonly templating: {
      readonly list: readonly {
        readonly name: string;
        readonly type: string;
        readonly definition?: string;
        readonly current: { readonly value: string };
      }[];
    };
  }
  const dashboard = async (): Promise<Dashboard> =>
    JSON.parse(await read('grafana.json')) as Dashboard;

  test('docs/grafana.json can be imported with any Prometheus', async () => {
    const { __inputs: inputs, schemaVersion, templating, panels } = await dashboard();
    assert.deepEqual(
      inputs.map(({ name, pluginId }) => [name, pluginId]),
      [['DS_PROMETHEUS', 'prometheus']],
    );
    assert.ok(schemaVersion >= 36);
    const variable = templating.list.find(({ type }) => type === 'datasource');
    assert.equal(variable?.current.value, '${DS_PROMETHEUS}');
    const uids = panels.flatMap(({ datasource }) => datasource?.uid ?? []);
    assert.ok(uids.length > 0 && uids.every((uid) => uid === `\${${variable?.name}}`));
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    assert.ok(panels.every(({ gridPos }) => gridPos.x + gridPos.w <= 24));
  });

  test('docs/grafana.json uses existing metrics only', async () => {
    const { panels, templating } = await dashboard();
    const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    const definitions = templating.list.flatMap(({ definition }) => definition ?? []);
    assert.ok(queries.length > 20);
    for (const expression of [...queries, ...definitions]) assertKnown(expression, expression);
  });

  test('docs/grafana.json shows every metric of Leat', async () => {
    const text = await read('grafana.json');
    const shown = new Set(namesIn(text).map((name) => familyName(reported.families, name)));
    const hidden = [...reported.families.keys()].filter(
      (name) => name.startsWith('leat_') && !shown.has(name),
    );
    assert.deepEqual(hidden, []);
  });
});
