/**
 * `npm run test:failover -- 20`: runs that many rounds of `test/cluster/failover.test.ts`, half of them
 * with synchronous replication, and fails when publishing was unavailable for too long after a
 * promotion.
 */
import { spawnSync } from 'node:child_process';

const outageMsMax = 5000;
const rounds = process.argv[2] ?? '20';

const run = spawnSync(
  process.execPath,
  ['--test', '--test-reporter=spec', 'test/cluster/failover.test.ts'],
  {
    stdio: 'inherit',
    env: {
      ...process.env,
      LEAT_FAILOVER_ROUNDS: rounds,
      LEAT_FAILOVER_BAR_MS: String(outageMsMax),
    },
  },
);
process.exitCode = run.status ?? 1;
