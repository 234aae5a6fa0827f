import { isWithin, parseNetworks } from '../core/address.ts';
import { createEgressRule } from '../delivery/http/egress.ts';
import type { Config } from '../config.ts';
import { type Finding, warn } from './finding.ts';

/**
 * Warns of each public address of this machine that webhooks may be sent to: its firewall does not see
 * what the machine sends to itself. Receivers may be there, so it is for the operator to decide.
 */
export function firewallFindings(
  addresses: readonly string[],
  { egressAllow, egressDeny }: Pick<Config, 'egressAllow' | 'egressDeny'>,
): Finding[] {
  const rule = createEgressRule({ allow: egressAllow, deny: egressDeny });
  const intended = parseNetworks(egressAllow);
  return [...new Set(addresses)]
    .filter((address) => rule.blocked(address) === undefined && !isWithin(address, intended))
    .map((address) =>
      warn(
        'firewall',
        `webhooks may be sent to ${address} of this machine, where its firewall does not see them`,
        `add ${address} to LEAT_EGRESS_DENY, or to LEAT_EGRESS_ALLOW if receivers are there`,
      ),
    );
}
