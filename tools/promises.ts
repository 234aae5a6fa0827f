/**
 * `node tools/promises.ts`: compares what the program promises and what its tests show with the entries of
 * `test/promises/standing.txt`. Fails when one is gone and `test/promises/changes.txt` does not say why.
 * `--write` writes the present entries down and removes the changes, see CONTRIBUTING.md.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { apiEntries } from './promises/api.ts';
import { failuresOf, withoutChanges } from './promises/compare.ts';
import { documentEntries } from './promises/documents.ts';
import { mistakeEntries } from './promises/mistakes.ts';
import { programEntries } from './promises/program.ts';
import { storeEntries } from './promises/stores.ts';
import { testEntries } from './promises/tests.ts';

const standingPath = 'test/promises/standing.txt';
const changesPath = 'test/promises/changes.txt';

const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } });
const present = [
  ...testEntries(),
  ...mistakeEntries(),
  ...apiEntries(),
  ...programEntries(),
  ...documentEntries(),
  ...(await storeEntries()),
]
  .map((entry) => entry.replaceAll(/\s+/g, ' ').trim())
  .toSorted();
const standing = existsSync(standingPath)
  ? readFileSync(standingPath, 'utf8').trimEnd().split('\n')
  : [];
const changes = readFileSync(changesPath, 'utf8');
const failures = failuresOf({ standing, present, changes });

if (failures.length > 0) {
  console.log(
    `${failures.join('\n')}\n${failures.length} failures: see the head of ${changesPath}.`,
  );
  process.exitCode = 1;
} else if (values.write) {
  writeFileSync(standingPath, `${present.join('\n')}\n`);
  writeFileSync(changesPath, withoutChanges(changes));
  console.log(`${present.length} entries are written to ${standingPath}.`);
} else console.log(`All of ${standing.length} promises stand or have a line that says why not.`);
