import { simulationMutants } from '../simulation/mutations.ts';
import { accessMutants } from './access.ts';
import { deliveryMutants } from './delivery.ts';
import type { Mutant } from './mutant.ts';
import { nightMutants } from './nights.ts';
import { optionMutants } from './options.ts';
import { orderMutants } from './order.ts';
import { postgresMutants } from './postgres.ts';

export const mutants: readonly Mutant[] = [
  ...simulationMutants,
  ...deliveryMutants,
  ...postgresMutants,
  ...accessMutants,
  ...optionMutants,
  ...orderMutants,
];

/** Returns the mutant of that name. Throws when there is none. */
export function mutantOf(name: string): Mutant {
  const mutant = [...mutants, ...nightMutants].find((one) => one.name === name);
  if (mutant === undefined) throw new Error(`No mutant is called "${name}".`);
  return mutant;
}
