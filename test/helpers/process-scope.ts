import { after } from 'node:test';
import type { Scope } from './cluster.ts';

const ends: (() => Promise<void>)[] = [];
// Of the whole process: `tools/test-run.ts` imports this file outside of the suites of its files.
after(async () => {
  for (const end of ends.toReversed()) await end();
});

/** What is opened with it ends after the last test of the process, which may run several files. */
export const processScope: Scope = { after: (end) => void ends.push(end) };
