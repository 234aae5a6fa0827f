import { createHash } from 'node:crypto';

/** Files that run for twenty seconds or more on two cores, the longest first. */
const longest = [
  'test/store/postgres.test.ts',
  'test/crash/failure-work.test.ts',
  'test/clients/auth0-deploy-cli.test.ts',
  'test/cluster/ownership.test.ts',
  'test/cluster/death.test.ts',
  'test/e2e/alerts.test.ts',
  'test/cluster/pull.test.ts',
  'test/cluster/lists.test.ts',
  'test/cluster/alerts.test.ts',
  'test/e2e/inspector.test.ts',
  'test/package/package.test.ts',
  'test/browser/reference.test.ts',
  'test/cluster/outage.test.ts',
  'test/store/model.test.ts',
  'test/e2e/connections.test.ts',
  'test/program/tenants.test.ts',
  'test/simulation/simulation.test.ts',
  'test/store/migrate-store.test.ts',
  'test/program/backup.test.ts',
  'test/program/operator.test.ts',
  'test/program/secrets.test.ts',
  'test/cluster/secrets.test.ts',
  'test/e2e/program.test.ts',
];

/**
 * Returns the test files in the order of a seed, but the longest first: one that begins near the end
 * would run alone while other processors are idle.
 */
export function filesInOrder(files: readonly string[], seed: number): string[] {
  const missing = longest.filter((file) => !files.includes(file));
  if (missing.length > 0)
    throw new Error(`tools/test-order.ts: no test file ${missing.join(', ')}`);
  const rank = (file: string): string =>
    createHash('sha256').update(`${seed} ${file}`).digest('hex');
  const others = files.filter((file) => !longest.includes(file));
  return [...longest, ...others.toSorted((one, other) => (rank(one) < rank(other) ? -1 : 1))];
}
