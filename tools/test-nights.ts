import { Command } from 'commander';
import type { Night, NightResult } from '../test/nights/night.ts';
import { nightNamed, nights, type Plant, plants } from '../test/nights/table.ts';

/**
 * `npm run test:nights`: plays all nights one after the other, then those that have to fail with a mistake
 * that is planted in the program, and prints a table. Fails when a night is wrong, or right with its mistake.
 */
const program = new Command('test:nights')
  .description('Long trials of the whole program: faults under load, compared event by event.')
  .option('--night <text>', 'those whose names contain it')
  .option('--no-plants', 'without the planted mistakes')
  .option('--plants', 'the planted mistakes alone')
  .option(
    '--rounds <number>',
    'times that each fault is played; 3 are a minute of the churn',
    Number,
  )
  .addHelpText('after', '\nExample: npm run test:nights -- --night "SQLite: kill"');
program.parse();
const options = program.opts<{ night?: string; plants?: boolean; rounds?: number }>();
const { rounds } = options;
const isChosen = (name: string): boolean => name.includes(options.night ?? '');
const chosen = options.plants === true ? [] : nights.filter(({ name }) => isChosen(name));
const withMistake = options.plants === false ? [] : plants.filter(({ night }) => isChosen(night));
if (chosen.length + withMistake.length === 0) {
  program.error(`--night: no night has "${options.night}" in its name`);
}

const rows: string[][] = [];
for (const night of chosen) await playOne(night);
for (const plant of withMistake) await playOne(nightNamed(plant.night), plant);
print(rows);

async function playOne(night: Night, plant?: Plant): Promise<void> {
  const name = plant === undefined ? night.name : `${night.name}, planted: ${plant.mutant}`;
  const missing = night.missing();
  console.log(missing === false ? `${name}…` : `${name}: left out, ${missing}`);
  if (missing !== false) return;
  const found = await night
    .play({ ...plant, ...(rounds !== undefined && { rounds }) })
    .catch((error: unknown) => String(error));
  const wrong = typeof found === 'string' ? [found] : found.wrong;
  const isRight =
    plant === undefined ? wrong.length === 0 : wrong.some((what) => what.includes(plant.shows));
  if (!isRight) process.exitCode = 1;
  const heading = plant === undefined ? 'WRONG' : 'found';
  const row = [
    isRight ? 'ok' : 'FAILED',
    ...(typeof found === 'string' ? Array<string>(7).fill('') : cells(found)),
    name,
  ];
  rows.push(row);
  for (const what of wrong) console.log(`  ${heading}: ${what}`);
  console.log(`  ${row.join('  ')}`);
}

function cells(found: NightResult): string[] {
  const { faults, acknowledged, lost, forgiven, twice, medianMs, longestMs, tookMs } = found;
  const seconds = [medianMs, longestMs, tookMs].map((ms) => `${(ms / 1000).toFixed(2)} s`);
  const lostShown = forgiven === 0 ? `${lost}` : `${lost} (+${forgiven})`;
  return [`${faults}`, `${acknowledged}`, lostShown, `${twice}`, ...seconds];
}

function print(body: readonly string[][]): void {
  const head = [
    '',
    'faults',
    'acknowledged',
    'lost',
    'twice',
    'median',
    'longest',
    'took',
    'night',
  ];
  const all = [head, ...body];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  for (const row of all) {
    const padded = row.map((cell, column) => cell.padEnd(widths[column] ?? 0));
    console.log(padded.join('  ').trimEnd());
  }
}
