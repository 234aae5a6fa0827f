import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { globSync, readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { leatCommand } from '../../src/cli/leat-command.ts';
import { commandTextsIn } from '../helpers/command-texts.ts';
import { createStream, freshType, publish, waitForFailures } from '../helpers/api-client.ts';
import { authority } from '../helpers/certificates.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { bootstrapClient } from '../helpers/leat.ts';
import { startTlsProxy } from '../helpers/tls-proxy.ts';
import { openLoggedInShell, openServer, openShell, type Shell } from './shell.ts';

/** Returns the commands that a text names, each up to the end of its line. */
function commandsIn(text: string): string[] {
  return [...text.matchAll(/\bleat [a-z].*$/gm)].map(([command]) => command);
}

describe('the next commands that a command prints', { concurrency: 2 }, () => {
  let other: Awaited<ReturnType<typeof openServer>>;
  let prod: Awaited<ReturnType<typeof openServer>>;
  let stream: { readonly id: string; readonly name: string };
  let event: string;
  let endpoint: Awaited<ReturnType<typeof startEndpoint>>;

  /** The installation `prod` has a stream with one failure, the other one has none. */
  before(async () => {
    const settings = { LEAT_RETRY_DELAYS_MS: '10' };
    [other, prod] = await Promise.all([openServer(settings), openServer(settings)]);
    endpoint = await startEndpoint();
    endpoint.respondWith(404);
    const type = freshType();
    stream = await createStream(prod, endpoint.url, { name: 'crm', types: [type] });
    event = await publish(prod, type);
    await waitForFailures(prod, stream.id, 1);
  });
  after(() => Promise.all([other.close(), prod.close(), endpoint.close()]));

  /** Opens a shell with a login to the other installation and one called `prod`. */
  async function openTwoLogins(t: Parameters<typeof openShell>[0]): Promise<Shell> {
    const shell = await openLoggedInShell(t, other);
    const words = ['login', prod.url, '--client-id', bootstrapClient.id, '--profile', 'prod'];
    const { code, stderr } = await shell.leat(words, { input: bootstrapClient.secret });
    assert.equal(code, 0, stderr);
    const [next = ''] = commandsIn(stderr);
    const { stdout } = await shell.sh(next);
    assert.ok(stdout.includes(stream.id), `${next}: ${stdout}`);
    return shell;
  }

  test(
    'a next command: reaches the installation of the profile whose command printed it',
    { tags: ['long'] },
    async (t) => {
      const shell = await openTwoLogins(t);
      const { stderr } = await shell.leat(['failures', '--profile', 'prod']);
      const [listing = '', sending = ''] = commandsIn(stderr);
      const [list, redelivery] = [await shell.sh(listing), await shell.sh(sending)];
      assert.ok(list.stdout.startsWith('EVENT'), `${listing}: ${list.stderr}`);
      assert.ok(list.stdout.includes(event), list.stdout);
      assert.equal(
        redelivery.stdout,
        '1 failure would be sent again.\n  crm: 1 http_404\n',
        sending,
      );
    },
  );

  test(
    'a next command: reaches that installation after an error, as text and as JSON',
    { tags: ['long'] },
    async (t) => {
      const shell = await openTwoLogins(t);
      const id = `est_${'1'.repeat(22)}`;
      const words = ['streams', 'show', id, '--profile', 'prod'];
      const shown = await shell.leat(words);
      const inJson = await shell.leat([...words, '--json']);
      const { nextStep } = JSON.parse(inJson.stderr) as { readonly nextStep: string };
      assert.equal(shown.stderr, `The requested stream does not exist: ${id}\n${nextStep}\n`);
      const [next = ''] = commandsIn(nextStep);
      const { stdout } = await shell.sh(next);
      assert.ok(stdout.includes(stream.id), `${next}: ${stdout}`);
    },
  );

  test('a next command: a login replaces the one with the wrong secret', async (t) => {
    const shell = await openTwoLogins(t);
    const text = await readFile(shell.credentials, 'utf8');
    const stored = JSON.parse(text) as { profiles: Record<string, object> };
    const changed = { clientSecret: 'former-secret', token: undefined };
    stored.profiles['prod'] = { ...stored.profiles['prod'], ...changed };
    await writeFile(shell.credentials, JSON.stringify(stored));
    const { code, stderr } = await shell.leat(['failures', '--profile', 'prod']);
    assert.equal(code, 3);
    const [login = ''] = commandsIn(stderr.replaceAll(/`|\.$/gm, ''));
    const input = bootstrapClient.secret;
    const again = await shell.sh(`${login} --client-id ${bootstrapClient.id}`, { input });
    assert.equal(again.code, 0, again.stderr);
    const failures = await shell.leat(['failures', '--profile', 'prod']);
    assert.match(failures.stdout, /^crm +http_404/m);
  });

  test(
    'a next command: trusts the authority that its command was told to trust',
    { tags: ['long'] },
    async (t) => {
      const proxy = await startTlsProxy(prod.port);
      t.after(() => proxy.close());
      const shell = await openShell(t);
      const file = "authority of o'hara.pem";
      await writeFile(join(shell.home, file), authority);
      const env = {
        LEAT_URL: `https://${proxy.domain}`,
        LEAT_CLIENT_ID: bootstrapClient.id,
        LEAT_CLIENT_SECRET: bootstrapClient.secret,
      };
      const { stderr } = await shell.run(['failures', '--ca', file], { env });
      const [list = ''] = commandsIn(stderr);
      const { code, stdout, stderr: problem } = await shell.sh(list, { env });
      assert.equal(code, 0, `${list}: ${problem}`);
      assert.ok(stdout.includes(event), stdout);
    },
  );

  test(
    'a next command: a login trusts the authority that the former login has stored',
    { tags: ['long'] },
    async (t) => {
      const proxy = await startTlsProxy(prod.port);
      t.after(() => proxy.close());
      const shell = await openShell(t);
      const [file, secretFile] = [join(shell.home, 'ca.pem'), join(shell.home, 'secret.txt')];
      await writeFile(file, authority);
      await writeFile(secretFile, bootstrapClient.secret);
      const given = ['--client-id', bootstrapClient.id, '--client-secret-file', secretFile];
      const url = `https://${proxy.domain}`;
      const login = await shell.run(['login', url, ...given, '--ca', 'ca.pem']);
      assert.equal(login.code, 0, login.stderr);
      assert.equal(login.stderr, 'Next: leat streams list\n', 'the login has stored the authority');
      const text = await readFile(shell.credentials, 'utf8');
      const stored = text
        .replace(/"clientSecret": ".*?"/, '"clientSecret": "former-secret"')
        .replace(/"endsAt": \d+/, '"endsAt": 0');
      await writeFile(shell.credentials, stored);
      const { stderr } = await shell.leat(['failures']);
      const [next = ''] = commandsIn(stderr.replaceAll(/`|\.$/gm, ''));
      assert.equal(next, `leat login ${url} --ca ${file}`);
      const again = await shell.sh(`${next} ${given.join(' ')}`);
      assert.equal(again.code, 0, again.stderr);
    },
  );
});

describe('leatCommand', () => {
  test('leatCommand: quotes values, keeps its own words, and ends with the options of the command', () => {
    const leat = leatCommand({ profile: "o'hara", ca: 'my ca.pem' });
    assert.equal(
      leat`streams update ${'$(reboot) x'} --events <types>`,
      String.raw`leat streams update '$(reboot) x' --events <types> --profile 'o'\''hara' --ca 'my ca.pem'`,
    );
  });

  test('leatCommand: an array is as many words as it has, also none', () => {
    const leat = leatCommand({});
    assert.equal(leat`redeliver ${[]} --dry-run`, 'leat redeliver --dry-run');
    assert.equal(leat`redeliver ${['a b', '']}`, "leat redeliver 'a b' ''");
  });
});

describe('texts of src/cli that name a command', () => {
  const root = fileURLToPath(new URL('../../src/cli/', import.meta.url));
  /** Help texts and scripts: they are about the program, not about one installation. */
  const isHelp = (file: string): boolean =>
    ['service-examples.ts', 'completion-scripts.ts'].includes(file);

  test('texts that name a command: leatCommand has built each, except in a help text', () => {
    const files = globSync('**/*.ts', { cwd: root }).filter((file) => !isHelp(file));
    assert.ok(files.length > 60, `found ${files.length} files`);
    const texts = files.flatMap((file) =>
      commandTextsIn(readFileSync(`${root}${file}`, 'utf8')).map((text) => `${file}: ${text}`),
    );
    assert.deepEqual(texts, []);
  });

  test('texts that name a command: the test finds them in strings, templates and lists of words', () => {
    const found = commandTextsIn(`
      /** \`leat why\` */
      command.description('like leat why').addHelpText('after', examples('leat why evt_…'));
      note('Next: leat why <event>', \`leat redeliver \${name}\`, \`Next: \${leat\`why \${id}\`}\`);
      const words = ['leat', 'why'];
      const text = \`Leat has \${'leat '}\`;
    `);
    assert.deepEqual(found, ['Next: leat why <event>', 'leat redeliver ', 'leat why', 'leat ']);
  });
});
