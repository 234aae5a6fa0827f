import { mutants } from '../../test/mutants/all.ts';
import { nightMutants } from '../../test/mutants/nights.ts';
import { nights, plants } from '../../test/nights/table.ts';
import { falseAlarms } from '../../test/simulation/false-alarms.ts';
import { guarantees } from '../../test/simulation/guarantees.ts';
import { regressions } from '../../test/simulation/regressions.ts';
import { noFaults } from '../../test/simulation/simulation.ts';

/** Returns entries for the mistakes that tests plant, and for what nights and simulation play and check. */
export function mistakeEntries(): string[] {
  return [
    ...[...mutants, ...nightMutants].map(({ name }) => `mutant: ${name}`),
    ...nights.map(({ name }) => `night: ${name}`),
    ...plants.map(({ night, mutant, shows }) => `mutant of a night: ${night}, ${mutant}: ${shows}`),
    ...regressions.map(({ fault }) => `regression: ${fault}`),
    ...falseAlarms.map(({ mistake }) => `false alarm: ${mistake}`),
    ...Object.values(guarantees).map((text) => `guarantee of the simulation: ${text}`),
    ...Object.keys(noFaults).map((name) => `fault of the simulation: ${name}`),
  ];
}
