import type { Tenant } from '../core/types.ts';
import type { CommandDeps } from './command.ts';
import { type Finding, ok, warn } from './finding.ts';

/** What becomes of requests for hosts that are the domain of no tenant (docs/http-api.md#tenant-selection). */

type Deps = Pick<CommandDeps, 'config' | 'clock' | 'unknownHosts'>;

/**
 * Returns lines that say, once there are several tenants, where requests go that name none of them; empty
 * where the server has accepted no such request in the last hour.
 */
export function unknownHostsWarning(deps: Deps, tenants: readonly Tenant[]): string {
  const { config, clock, unknownHosts } = deps;
  const [first] = tenants;
  if (first === undefined) return '';
  const rule =
    config.unknownHost === 'first'
      ? `still serves them for ${first.name}, and LEAT_UNKNOWN_HOST=refuse would refuse them`
      : 'refuses them from now on with 404; with LEAT_UNKNOWN_HOST=first it would serve them for ' +
        first.name;
  if (unknownHosts === undefined) {
    return `\nA request whose Host is the domain of no tenant: Leat ${rule}.`;
  }
  const { served } = unknownHosts.seen(clock.now());
  if (served.length === 0) return '';
  return `\nIn the last hour clients used ${served.join(', ')}, the domain of no tenant. Leat ${rule}. The console opens at the domains alone: ${tenants.map(({ domain }) => domain).join(', ')}.`;
}

/** Checks what the server has seen in the last hour; nothing where the command line reads the store itself. */
export function unknownHostFindings(deps: Deps, tenants: readonly Tenant[]): Finding[] {
  const { config, clock, unknownHosts } = deps;
  const [first, ...others] = tenants;
  if (unknownHosts === undefined || first === undefined) return [];
  const { served, refused } = unknownHosts.seen(clock.now());
  const findings: Finding[] = [];
  if (served.length > 0 && (others.length > 0 || config.unknownHost === 'refuse')) {
    findings.push(
      warn(
        'hosts',
        `clients use ${served.join(', ')}, the domain of no tenant: ${servedAs(first, config.unknownHost)}`,
        `let them use the domain of their tenant: ${tenants.map(({ domain }) => domain).join(', ')}`,
      ),
    );
  }
  if (refused.length > 0) {
    findings.push(
      warn(
        'hosts',
        `requests for ${refused.join(', ')} got 404 in the last hour: no tenant has that domain`,
        'let clients use the domain of a tenant; where only strangers ask, nothing is to be done',
      ),
    );
  }
  return findings.length > 0 ? findings : [ok('hosts', hostsText(served.length))];
}

function servedAs({ name }: Tenant, rule: 'first' | 'refuse'): string {
  return rule === 'first'
    ? `${name} serves them`
    : `${name} serves them until there is another tenant`;
}

function hostsText(served: number): string {
  return served === 0
    ? 'requests of the last hour used the domains of tenants'
    : 'any may be used while there is one tenant';
}
