import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  createStream,
  expectBody,
  publishAll,
  readStream,
  waitForFailures,
  waitForStats,
} from '../helpers/api-client.ts';
import { openLoggedInShell, openServer } from '../cli/shell.ts';
import { startEndpoint, text } from '../helpers/endpoint.ts';
import { endWithProcess } from '../helpers/children.ts';
import { compileCache, leatProgram } from '../helpers/leat.ts';
import { type Block, blocksOf, normalized, withOutputs } from '../helpers/transcripts.ts';
import { waitFor } from '../helpers/wait.ts';
import { dayMs } from '../../src/core/units.ts';

/**
 * Runs every command of docs/operating.md, in its order, and compares what it prints with the page.
 * `LEAT_WRITE_DOCS=1` writes the outputs into the page instead.
 */

const path = fileURLToPath(new URL('../../docs/operating.md', import.meta.url));
const page = readFileSync(path, 'utf8');
const isWriting = process.env['LEAT_WRITE_DOCS'] === '1';
const hasCurl = spawnSync('curl', ['--version']).status === 0;

test(
  'docs/operating.md: every command prints what the page shows',
  { tags: ['long'] },
  async (t) => {
    const { run, steps } = await openInstallation(t);
    const outputs = new Map<Block, string>();
    for (const block of blocksOf(page)) {
      const isCall = block.language === 'sh';
      const [first = ''] = block.commands;
      const title = isCall ? 'call' : first;
      const skip = isCall && !hasCurl ? 'there is no curl on this machine' : false;
      await t.test(`${block.heading} ${title}`, { skip }, async () => {
        await steps.get(block.heading)?.();
        steps.delete(block.heading);
        const output = await run(block);
        if (isCall) assert.doesNotThrow(() => JSON.parse(output), output);
        else if (isWriting) outputs.set(block, output);
        else assert.equal(normalized(output), normalized(block.output));
      });
    }
    assert.deepEqual([...steps.keys()], [], 'headings that the page does not have');
    if (isWriting) writeFileSync(path, withOutputs(page, outputs));
  },
);

type Step = () => Promise<unknown>;

/** Opens the installation of the page, and what happens to it above the commands of each heading. */
async function openInstallation(t: Parameters<typeof openLoggedInShell>[0]) {
  const leat = await openServer({
    LEAT_RETRY_DELAYS_MS: '10,20,30',
    LEAT_DISABLE_CONSECUTIVE: '4',
  });
  t.after(() => leat.close());
  const [crm, billing, warehouse] = [
    await startEndpoint(),
    await startEndpoint(),
    await startEndpoint(),
  ];
  t.after(() => Promise.all([crm.close(), billing.close(), warehouse.close()]));
  const crmStream = await createStream(leat, crm.url, { name: 'crm', types: ['user.created'] });
  const billingTypes = ['order.paid', 'order.refunded'];
  const billingStream = await createStream(leat, billing.url, {
    name: 'billing',
    types: billingTypes,
  });
  const filter = { 'data.object.weight': { $gt: 0 } };
  await createStream(leat, warehouse.url, {
    name: 'warehouse',
    types: ['order.paid'],
    delivery: { filter },
  });
  await publishAll(leat, users(1, 3));
  await crm.arrival(3);
  crm.respondWith(text(503, 'CRM is being updated'));
  for (let number = 4; number <= 7; number += 1) {
    await publishAll(leat, users(number, number));
    await waitForFailures(leat, crmStream.id, number - 3);
  }
  await waitFor(
    'the disabling',
    async () => (await readStream(leat, crmStream.id)).status === 'disabled',
  );
  await publishAll(leat, users(8, 9));

  billing.respondWith((response, { event }) => {
    const { number } = event.data['object'] as { readonly number: number };
    const status = event.type === 'order.refunded' ? 404 : number === 17 ? 503 : 204;
    response.writeHead(status).end(status === 503 ? 'database is locked' : '');
  });
  await publishAll(leat, [...orders('order.paid', 16, 16), ...orders('order.paid', 18, 18)]);
  await waitForStats(leat, billingStream.id, { delivered: 2 });
  await publishAll(leat, [...orders('order.paid', 17, 17), ...orders('order.refunded', 12, 13)]);
  await waitForFailures(leat, billingStream.id, 3);

  const shell = await openLoggedInShell(t, leat);
  const program = join(shell.home, 'leat');
  writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${leatProgram}" "$@"\n`);
  chmodSync(program, 0o755);
  // As long as 127.0.0.1 with a port, so that the columns of tables stay aligned.
  const hosts = [
    [crm.port, 'crm.example.com'],
    [billing.port, 'pay.example.com'],
    [warehouse.port, 'wms.example.com'],
  ] as const;
  const env = {
    API: `${leat.url}/api/v2`,
    TOKEN: leat.token,
    STREAM: crmStream.id,
    YESTERDAY: new Date(Date.now() - dayMs).toISOString(),
    TODAY: new Date().toISOString(),
  };
  const run = async ({ language, commands }: Block): Promise<string> => {
    let output = '';
    for (const command of commands) {
      const ended = await runInShell(shell.home, command, env);
      if (language === 'sh') assert.equal(ended.code, 0, ended.output);
      output += language === 'console' ? `$ ${command}\n${ended.output}` : ended.output;
    }
    for (const [port, host] of hosts) output = output.replaceAll(`127.0.0.1:${port}`, host);
    return output.replaceAll(/whsec_[\w+/=]+/g, 'whsec_…');
  };
  const health = async (): Promise<{ lag: { seconds: number } }> =>
    expectBody(200, leat.send('GET', `/api/v2/event-streams/${crmStream.id}/health`));
  const statistics = async () => {
    const query = new URLSearchParams({ bucket: 'day', date_from: env.TODAY });
    const read = leat.send('GET', `/api/v2/stats/deliveries?${query.toString()}`);
    return (await expectBody<{ data: { delivered: number; failed: number }[] }>(200, read)).data;
  };
  const steps = new Map<string, Step>([
    [
      'Why is this stream disabled?',
      () => waitFor('a lag of seconds', async () => (await health()).lag.seconds > 0),
    ],
    ['How do I enable it again?', async () => crm.respondWith(204)],
    [
      'What did we send yesterday?',
      () =>
        waitFor('the statistics', async () => {
          const { delivered = 0, failed = 0 } = (await statistics())[0] ?? {};
          return delivered === 11 && failed === 7;
        }),
    ],
    ['Resend only the 503s', async () => billing.respondWith(204)],
  ]);
  return { run, steps };
}

const users = (from: number, to: number): object[] =>
  range(from, to).map((number) => ({ type: 'user.created', data: { object: { number } } }));

const orders = (type: string, from: number, to: number): object[] =>
  range(from, to).map((number) => ({
    type,
    id: `order-${number}/${type.slice('order.'.length)}`,
    data: { object: { number } },
  }));

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index);

/** Returns both outputs of a command, in the order in which they were written. */
async function runInShell(
  home: string,
  command: string,
  env: Readonly<Record<string, string>>,
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = spawn('sh', ['-c', `exec 2>&1\n${command}`], {
    cwd: home,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: `${home}:${process.env['PATH'] ?? ''}`,
      HOME: home,
      XDG_CONFIG_HOME: join(home, 'x'),
      ...compileCache,
      ...env,
    },
  });
  endWithProcess(child);
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await once(child, 'close');
  return { code: child.exitCode, output };
}
