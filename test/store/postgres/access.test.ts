import { apisContract } from '../contract/apis.ts';
import { clientsContract } from '../contract/clients.ts';
import { grantsContract } from '../contract/grants.ts';
import { keysContract } from '../contract/keys.ts';
import { pagesContract } from '../contract/pages.ts';
import { rolesContract } from '../contract/roles.ts';
import { tenantsContract } from '../contract/tenants.ts';
import { usersContract } from '../contract/users.ts';
import { postgres } from '../engines.ts';

tenantsContract(postgres);
keysContract(postgres);
clientsContract(postgres);
apisContract(postgres);
grantsContract(postgres);
rolesContract(postgres);
usersContract(postgres);
pagesContract(postgres);
