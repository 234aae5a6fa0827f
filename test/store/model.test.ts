import { modelContract } from './contract/commands.ts';
import { sqliteFile, sqliteMemory } from './engines.ts';

modelContract(sqliteMemory, 100);
modelContract(sqliteFile, 10);
