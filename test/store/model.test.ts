import { modelContract } from './contract/commands.ts';
import { postgres, sqliteFile, sqliteMemory } from './engines.ts';

modelContract(sqliteMemory, 100);
modelContract(sqliteFile, 10);
modelContract(postgres, 10);
