import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startFailoverFixture } from '../helpers/failover.ts';
import { rounds } from '../helpers/rounds.ts';

/** `npm run test:failover` plays more rounds, and has a limit for the outage of publishing. */
const roundCount = Number(process.env['LEAT_FAILOVER_ROUNDS'] ?? rounds({ few: 1, all: 2 }));
const isLong = process.env['LEAT_FAILOVER_ROUNDS'] !== undefined;
const limitMs = Number(process.env['LEAT_FAILOVER_BAR_MS'] ?? Infinity);

const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`;

describe('a primary that dies under load while its standby is promoted', () => {
  test(
    'no event of the survivor is lost; with synchronous replication no acknowledged event at all',
    { tags: rounds({ few: [], all: ['long'] }) },
    async (t) => {
      const fixture = await startFailoverFixture(t);
      // The long command prints each round when it is over; a diagnostic is printed at the end of the test.
      const report = (line: string): void => {
        if (isLong) process.stdout.write(`${line}\n`);
        else t.diagnostic(line);
      };
      const outageMs: number[] = [];
      for (let round = 0; round < roundCount; round += 1) {
        const replication = round % 2 === 0 ? 'asynchronous' : 'synchronous';
        const played = await fixture.play(replication);
        outageMs.push(played.outageMs);
        report(
          `round ${round + 1}, ${replication}: publishing unavailable for ${seconds(played.outageMs)} after ` +
            `the promotion, ${seconds(played.sinceKillMs)} after the kill; ${played.lost} acknowledged ` +
            `events lost with the primary, 0 of the survivor's ${played.survived} events not delivered`,
        );
        if (replication === 'synchronous') assert.equal(played.lost, 0);
        else assert.ok(played.lost >= 100, `the standby was only ${played.lost} events behind`);
      }
      const { events, pulled, restarts } = await fixture.end();
      const sorted = outageMs.toSorted((one, other) => one - other);
      const [median = 0, longest = 0] = [sorted[sorted.length >> 1], sorted.at(-1)];
      report(
        `${roundCount} rounds, ${events} events in the end; publishing unavailable for ${seconds(median)} ` +
          `(median), ${seconds(longest)} (longest); the pull restarted ${restarts} times and received ` +
          `${pulled} events`,
      );
      assert.ok(longest <= limitMs, `publishing was unavailable for ${seconds(longest)}`);
    },
  );
});
