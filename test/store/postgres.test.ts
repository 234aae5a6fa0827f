import { deliveriesContract } from './contract/deliveries.ts';
import { logContract } from './contract/log.ts';
import { alertStateContract } from './contract/alert-state.ts';
import { ownershipContract } from './contract/ownership.ts';
import { overviewContract } from './contract/overview.ts';
import { replaysContract } from './contract/replays.ts';
import { settleContract } from './contract/settle.ts';
import { streamsContract } from './contract/streams.ts';
import { postgres } from './engines.ts';

logContract(postgres);
streamsContract(postgres);
deliveriesContract(postgres);
ownershipContract(postgres);
settleContract(postgres);
replaysContract(postgres);
alertStateContract(postgres);
overviewContract(postgres);
