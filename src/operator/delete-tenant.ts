import { StartRefused } from '../core/errors.ts';
import { removeTenant } from '../upkeep/tenant-removal.ts';
import { entryOfCommand } from './audit-log.ts';
import { type Args, type Call, type CommandDeps, textOf } from './command.ts';
import { countText } from './table.ts';

/**
 * Stops the streams of a tenant and removes its rows. Requests do not find the tenant from the first
 * step on. An interrupted removal resumes when the command runs again, or at the next start.
 */
export async function deleteTenant(deps: CommandDeps, args: Args, call: Call): Promise<string> {
  const { store, clock } = deps;
  const name = textOf(args, 'name');
  const tenants = await store.tenants.list();
  const found = tenants.find((tenant) => tenant.name === name);
  const leaving = (await store.tenants.leaving()).find((tenant) => tenant.name === name);
  const tenant = found ?? leaving;
  if (tenant === undefined) {
    throw new StartRefused(`No tenant is called "${name}": leat tenants list shows them.`);
  }
  if (found !== undefined && tenants.length === 1) {
    throw new StartRefused(
      `"${name}" is the only tenant, which the next start would create again: stop the server and remove the store instead.`,
    );
  }
  if (found !== undefined && found.id === tenants[0]?.id) {
    throw new StartRefused(
      `"${name}" is the first tenant, which LEAT_TENANT_NAME and LEAT_TENANT_DOMAIN name: only others can be deleted.`,
    );
  }
  if (args['dry'] === true) return '';
  if (found !== undefined) {
    // In the log of the first tenant: its own is removed.
    const entry = entryOfCommand(deps, 'tenants delete')(tenants[0]?.id ?? 0, [name]);
    await store.recording(entry).tenants.leave(found.id);
  }
  const removed = await removeTenant(
    { store, clock },
    tenant.id,
    (done) => call.progress({ step: `removing rows of ${name}`, done }),
    call.signal,
  );
  return `Deleted ${name}: ${countText(removed)} ${removed === 1 ? 'row was' : 'rows were'} removed.`;
}
