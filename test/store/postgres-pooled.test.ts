import { deliveriesContract } from './contract/deliveries.ts';
import { logContract } from './contract/log.ts';
import { ownershipContract } from './contract/ownership.ts';
import { settleContract } from './contract/settle.ts';
import { usersContract } from './contract/users.ts';
import { postgresPooled } from './engines.ts';

logContract(postgresPooled);
deliveriesContract(postgresPooled);
ownershipContract(postgresPooled);
settleContract(postgresPooled);
usersContract(postgresPooled);
