import { plant } from './plant.ts';

/** For `node --import`: plants the mutant that the environment names before a test file is loaded. */
const name = process.env['LEAT_MUTANT'];
if (name !== undefined) plant(name);
