import { logContract } from '../contract/log.ts';
import { ownershipContract } from '../contract/ownership.ts';
import { settleContract } from '../contract/settle.ts';
import { postgresPooled } from '../engines.ts';

logContract(postgresPooled);
ownershipContract(postgresPooled);
settleContract(postgresPooled);
