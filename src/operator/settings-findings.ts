import { isLoopbackAddress, isWithin, type Network, parseNetworks } from '../core/address.ts';
import { isLoopback } from '../core/value.ts';
import { type Config, dataFolderOf, tenantDomainOf } from '../config.ts';
import { bad, type Finding, note, ok, warn } from './finding.ts';

/** Checks that the settings suit a service that others use, as docs/production.md says. */
export function settingsFindings(config: Config): Finding[] {
  return [
    addressFinding(config),
    ...proxyFindings(config),
    ...egressAllowFindings(config),
    endpointsFinding(config),
    secretKeyFinding(config),
    metricsFinding(config),
    backupFinding(config),
  ];
}

/** Returns whether only programs of this machine can connect to a listener at the address. */
export function isLocalHost(host: string): boolean {
  return isLoopback(host) || isLoopbackAddress(host);
}

function addressFinding(config: Config): Finding {
  const { host, port, trustProxy } = config;
  const domain = tenantDomainOf(config);
  const name = domain.replace(/:[0-9]+$/, '');
  const isReachable = !isLocalHost(host) || trustProxy.length > 0;
  if (!isReachable) return ok('address', `${domain}, for this machine only`);
  if (!isLoopback(name)) return ok('address', `${domain}, at ${host} port ${port}`);
  return bad(
    'address',
    `clients of other machines are served, but the first tenant is at ${domain}`,
    'set LEAT_PUBLIC_URL to the https:// URL that clients use',
  );
}

/** A network of a company is not wider: IPv4 and IPv6. */
const proxyBitsMin = { 4: 8, 16: 16 } as const;

function proxyFindings({ trustProxy }: Config): Finding[] {
  return trustProxy
    .filter((_text, index) => isWide(parseNetworks(trustProxy)[index], proxyBitsMin))
    .map((text) =>
      bad(
        'proxies',
        `LEAT_TRUST_PROXY has ${text}: nearly everybody may claim any address of a client`,
        'list the addresses of your own proxies only',
      ),
    );
}

/** Addresses at which clouds give the credentials of the machine to whoever asks. */
const metadataAddresses = ['169.254.169.254', '168.63.129.16', 'fd00:ec2::254'];
const loopbackAddresses = ['127.0.0.1', '::1'];
/** 10.0.0.0/8 is all that a company may have; a range of receivers is smaller. */
const egressBitsMin = { 4: 12, 16: 32 } as const;

function egressAllowFindings({ egressAllow }: Config): Finding[] {
  return egressAllow.flatMap((text) => {
    const [network] = parseNetworks([text]);
    if (network === undefined) return [];
    const has = (address: string): boolean => isWithin(address, [network]);
    const allows = `LEAT_EGRESS_ALLOW has ${text}: webhooks may be sent to`;
    const next = 'list the addresses of receivers only';
    if (metadataAddresses.some(has)) {
      return [bad('egress', `${allows} the metadata service of a cloud`, next)];
    }
    if (loopbackAddresses.some(has)) {
      return [warn('egress', `${allows} every service of this machine`, next)];
    }
    if (!isWide(network, egressBitsMin)) return [];
    return [warn('egress', `${allows} all of that network`, next)];
  });
}

function isWide(
  network: Network | undefined,
  bitsMin: Readonly<Record<number, number>>,
): network is Network {
  return network !== undefined && network.prefixBits < (bitsMin[network.bytes.length] ?? 0);
}

function endpointsFinding({ allowHttpEndpoints }: Config): Finding {
  if (!allowHttpEndpoints) return ok('endpoints', 'new ones have to be https://');
  return warn(
    'endpoints',
    'events may be sent to http:// endpoints, which anybody on the way can read',
    'remove LEAT_ALLOW_HTTP_ENDPOINTS',
  );
}

function secretKeyFinding(config: Config): Finding {
  const { store, secretKeys } = config;
  if (secretKeys !== undefined) return ok('secret key', 'is in LEAT_SECRET_KEY');
  if (store.engine === 'sqlite' && store.file === undefined) {
    return ok('secret key', 'is in memory, as is the store');
  }
  return note(
    'secret key',
    `is in ${dataFolderOf(config)}/secret.key; leat doctor cannot see whether there is a copy`,
    'keep a copy apart from the backups, which it opens: docs/secrets.md',
  );
}

function metricsFinding({ metricsHost, metricsPort }: Config): Finding {
  if (metricsPort === undefined) {
    return warn(
      'metrics',
      'there are none',
      'set LEAT_METRICS_PORT and scrape it: docs/metrics.md has alerts and a dashboard',
    );
  }
  const at = `${metricsHost} port ${metricsPort}`;
  if (isLocalHost(metricsHost)) return ok('metrics', `at ${at}`);
  return note(
    'metrics',
    `at ${at}, where everybody who can connect reads names of tenants and streams`,
    'let only Prometheus connect to that port',
  );
}

function backupFinding({ store }: Config): Finding {
  const said = 'leat doctor cannot see whether there are any';
  const drill = 'and try a restore: docs/production.md';
  if (store.engine === 'postgres') return note('backups', said, `run pg_dump regularly ${drill}`);
  return note('backups', said, `run leat backup every night ${drill}`);
}
