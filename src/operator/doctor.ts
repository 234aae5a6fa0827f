import { X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import { open, rm, stat, statfs } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join, resolve } from 'node:path';
import type { Admin } from '../program/admin.ts';
import { issuerOf } from '../auth/issuer.ts';
import {
  type Config,
  dataFolderOf,
  limits,
  type Loaded,
  tenantDomainOf,
  usesPlainHttp,
} from '../config.ts';
import type { Clock, Millis, RandomBytes } from '../core/clock.ts';
import { codeOf } from '../core/errors.ts';
import { dayMs } from '../core/units.ts';
import { createEgressRule } from '../delivery/http/egress.ts';
import { sendTestAlert } from '../alerting/alert-test.ts';
import type { AlertChannel } from '../alerting/channel.ts';
import { validityProblem, readTlsFiles } from '../tls/certificate-files.ts';
import { bad, failed, type Finding, ok, warn } from './finding.ts';
import { isLocalHost, settingsFindings } from './settings-findings.ts';
import type { StoreReport } from './store-findings.ts';
import { bytesText, countText } from './table.ts';
import { isWithin, parseNetworks } from '../core/address.ts';

export interface DoctorDeps {
  readonly loaded: Loaded;
  readonly admin: Admin;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly nodeVersion: string;
  /** Resolves a name to all its addresses. */
  readonly addressesOf: (host: string) => Promise<readonly string[]>;
  /** Channels that a test alert is sent to; absent: none is sent. */
  readonly testAlert?: readonly AlertChannel[] | undefined;
  readonly signal: AbortSignal;
}

/** Runs every check; a failed check does not stop the others. */
export async function examine(deps: DoctorDeps): Promise<Finding[]> {
  const { loaded, admin, nodeVersion } = deps;
  const { config } = loaded;
  const report = await storeReport(admin, config);
  const size = 'bytes' in report ? report : { bytes: 0 };
  return [
    ...configurationFindings(loaded),
    ...settingsFindings(config),
    ...report.findings,
    ...(hasFolder(config) ? await dataFindings(config, size, deps) : []),
    await tlsFinding(config, deps),
    ...('hosts' in report ? await receiverFindings(config, report.hosts, deps) : []),
    ...firewallFindings(ownAddresses(), config),
    ...(await alertFindings(config, deps)),
    versionFinding(nodeVersion),
  ];
}

/** Returns whether there is a data folder to check: a store that does not exist yet may have none. */
function hasFolder(config: Config): boolean {
  const { store } = config;
  const isFile = store.engine === 'sqlite' && store.file !== undefined;
  return !isFile || existsSync(dataFolderOf(config));
}

async function dataFindings(config: Config, size: StoreAge, deps: DoctorDeps): Promise<Finding[]> {
  return [
    ...(await folderFindings(config, size, deps.clock.now())),
    await filesFinding(config),
    await fsyncFinding(config, deps),
  ];
}

function ownAddresses(): string[] {
  const interfaces = Object.values(networkInterfaces());
  return interfaces.flatMap((each) => (each ?? []).map(({ address }) => address));
}

function configurationFindings({ warnings }: Loaded): Finding[] {
  const source = settingsSource();
  if (warnings.length === 0)
    return [ok('settings', `all are known and valid; read from ${source}`)];
  return [
    ok('settings', `read from ${source}`),
    ...warnings.map((line) => warn('settings', line, 'leat config shows every setting')),
  ];
}

/** A service that was started in another directory may have other settings. */
function settingsSource(): string {
  const file = resolve('.env');
  return existsSync(file) ? `the environment and ${file}` : `the environment; there is no ${file}`;
}

async function storeReport(
  admin: Admin,
  { store }: Pick<Config, 'store'>,
): Promise<StoreReport | Pick<StoreReport, 'findings'>> {
  try {
    return JSON.parse(await admin.run('doctor store')) as StoreReport;
  } catch (error) {
    const again = 'then run leat doctor again: checks that need the store were skipped';
    const fix =
      store.engine === 'sqlite'
        ? 'fix it'
        : 'fix it (with synchronous_standby_names every commit waits until a replica is connected)';
    return { findings: [failed('store', error, `${fix}, ${again}`)] };
  }
}

const freeBytesMin = 1024 ** 3;

/** Size of a store, and since when it has events. */
interface StoreAge {
  readonly bytes: number;
  readonly since?: Millis | undefined;
}

async function folderFindings(config: Config, size: StoreAge, now: Millis): Promise<Finding[]> {
  const { store, eventRetentionDays } = config;
  if (store.engine !== 'sqlite' || store.file === undefined) return [];
  const folder = dataFolderOf(config);
  try {
    const { bavail, bsize } = await statfs(folder);
    const free = bavail * bsize;
    const growth = growthOf(size, eventRetentionDays * dayMs, now);
    return [diskFinding({ folder, free, storeBytes: size.bytes, growth, eventRetentionDays })];
  } catch (error) {
    return [failed('disk', error, `allow this user to read ${folder}`)];
  }
}

/** Events of less than an hour do not show how fast a store grows. */
const growthMsMin = dayMs / 24;

/** Returns how much the store grows until its oldest events reach their retention, at its rate so far. */
function growthOf({ bytes, since }: StoreAge, retentionMs: number, now: Millis): number {
  const ageMs = since === undefined ? 0 : now - since;
  if (ageMs < growthMsMin || ageMs >= retentionMs) return 0;
  return Math.round(bytes * (retentionMs / ageMs - 1));
}

interface Disk {
  readonly folder: string;
  readonly free: number;
  readonly storeBytes: number;
  readonly growth: number;
  readonly eventRetentionDays: number;
}

function diskFinding({ folder, free, storeBytes, growth, eventRetentionDays }: Disk): Finding {
  const text = `${bytesText(free)} are free in ${folder}`;
  if (free < freeBytesMin)
    return bad('disk', text, 'free disk space: publishing fails with 503 when the disk is full');
  if (free < growth) {
    return warn(
      'disk',
      `${text}; at its rate so far the store grows by ${bytesText(growth)} before the first events are ${countText(eventRetentionDays)} days old`,
      'use a larger disk, or lower LEAT_EVENT_RETENTION_DAYS',
    );
  }
  if (free > storeBytes) return ok('disk', text);
  return warn(
    'disk',
    `${text}, less than the size of the store`,
    'leat backup needs as much space again',
  );
}

/** Access of others: to secrets, also of the group; to files that a group may share; to a folder. */
const forbidden = { secret: 0o077, shared: 0o007, folder: 0o002, folderOfGroup: 0o020 } as const;

/** Checks who else can read files with secrets, or replace files of the data folder. */
async function filesFinding(config: Config): Promise<Finding> {
  const { store, tlsKeyPath } = config;
  const folder = dataFolderOf(config);
  const isFile = store.engine === 'sqlite' && store.file !== undefined;
  const files = isFile ? [store.file, `${store.file}-wal`] : [];
  const secret = [...files, join(folder, 'secret.key'), join(folder, 'bootstrap.json')];
  const shared = ['.env', ...(tlsKeyPath === undefined ? [] : [tlsKeyPath])];
  const readable = await opened(secret, forbidden.secret);
  if (readable.length > 0) {
    const fix = `chmod 600 ${readable.join(' ')}`;
    return bad('files', `others can read ${readable.join(', ')}`, fix);
  }
  if ((await opened([folder], forbidden.folder)).length > 0) {
    return bad('files', `others can write to ${folder}`, `chmod 700 ${folder}`);
  }
  if ((await opened([folder], forbidden.folderOfGroup)).length > 0) {
    return warn('files', `the group of ${folder} can replace its files`, `chmod 700 ${folder}`);
  }
  const known = await opened(shared, forbidden.shared);
  if (known.length > 0) {
    return warn(
      'files',
      `every user can read ${known.join(', ')}`,
      `chmod o-rwx ${known.join(' ')}`,
    );
  }
  return ok('files', 'only their owner can read the store and its key');
}

/** Returns those of the paths that exist and give others one of the rights. */
async function opened(paths: readonly string[], rights: number): Promise<string[]> {
  const found: string[] = [];
  for (const path of paths) {
    const file = await stat(path).catch(() => undefined);
    if (file !== undefined && (file.mode & rights) !== 0) found.push(path);
  }
  return found;
}

const syncs = 20;
const slowMs = 20;

/** Measures the median time of an fsync on the disk of the store; every publish waits for one. */
async function fsyncFinding(config: Config, { clock, random }: DoctorDeps): Promise<Finding> {
  if (config.store.engine !== 'sqlite' || config.store.file === undefined) {
    return ok('fsync', 'is not measured: the store is on another machine');
  }
  const folder = dataFolderOf(config);
  const file = join(folder, `fsync-${Buffer.from(random(4)).toString('hex')}`);
  try {
    const ms = await medianSyncMs(file, clock);
    const text = `one takes ${ms.toFixed(1)} ms on the disk of ${folder}`;
    if (ms <= slowMs) return ok('fsync', text);
    return warn('fsync', text, 'use a local disk: every publishing request waits for one');
  } catch (error) {
    return failed('fsync', error, `allow this user to write to ${folder}`);
  } finally {
    await rm(file, { force: true }).catch(() => undefined);
  }
}

async function medianSyncMs(file: string, clock: Clock): Promise<number> {
  const handle = await open(file, 'wx', 0o600);
  try {
    const times: number[] = [];
    for (let count = 0; count < syncs; count += 1) {
      await handle.write(Buffer.alloc(4096, count));
      const began = clock.elapsedMs();
      await handle.datasync();
      times.push(clock.elapsedMs() - began);
    }
    return times.toSorted((a, b) => a - b)[syncs / 2] ?? 0;
  } finally {
    await handle.close();
  }
}

const renewDays = 14;

async function tlsFinding(config: Config, { clock }: DoctorDeps): Promise<Finding> {
  const { tlsCertPath: certPath, tlsKeyPath: keyPath, tls, host, trustProxy } = config;
  if (tls === 'local')
    return warn(
      'tls',
      'the certificate is for local trials only',
      'set LEAT_TLS_CERT and LEAT_TLS_KEY',
    );
  if (certPath === undefined || keyPath === undefined) {
    if (trustProxy.length > 0) return ok('tls', 'ends at the proxy of LEAT_TRUST_PROXY');
    if (isLocalHost(host)) return ok('tls', 'none: only this machine can connect');
    return bad(
      'tls',
      `plain HTTP on ${host}`,
      'set LEAT_TLS_CERT and LEAT_TLS_KEY, or LEAT_TRUST_PROXY',
    );
  }
  try {
    const identity = await readTlsFiles({ certPath, keyPath });
    const objection = validityProblem(identity, clock.now());
    if (objection !== undefined) return bad('tls', objection, `renew ${certPath}`);
    return certificateFinding(identity.cert, config, clock.now());
  } catch (error) {
    return failed('tls', error, 'set LEAT_TLS_CERT and LEAT_TLS_KEY to a certificate and its key');
  }
}

function certificateFinding(cert: string, config: Config, now: number): Finding {
  const certificate = new X509Certificate(cert);
  const name = tenantDomainOf(config).replace(/:[0-9]+$/, '');
  if (certificate.checkHost(name) === undefined) {
    return bad('tls', `the certificate is not for ${name}`, 'get one for LEAT_TENANT_DOMAIN');
  }
  const days = Math.floor((certificate.validToDate.getTime() - now) / dayMs);
  const text = `the certificate is for ${name} and expires in ${days} days`;
  if (days > renewDays) return ok('tls', text);
  return warn('tls', text, 'renew it: the file is loaded again within a minute');
}

/** Checks that the hosts of streams have addresses, and that the egress rule allows them. */
async function receiverFindings(
  config: Config,
  hosts: readonly string[],
  { addressesOf, signal }: DoctorDeps,
): Promise<Finding[]> {
  const rule = createEgressRule({ allow: config.egressAllow, deny: config.egressDeny });
  const wrong: Finding[] = [];
  for (const host of hosts) {
    signal.throwIfAborted();
    const name = host.replace(/^\[(?<address>.*)\]$/, '$<address>');
    const addresses = await addressesOf(name).catch((error: unknown) => codeOf(error) ?? 'failed');
    if (typeof addresses === 'string') {
      wrong.push(
        bad(
          'receivers',
          `${name} has no address (${addresses})`,
          'check the name and the resolver of this machine',
        ),
      );
      continue;
    }
    const blocked = addresses
      .map((address) => rule.blocked(address))
      .find((at) => at !== undefined);
    if (blocked === undefined) continue;
    wrong.push(
      bad(
        'receivers',
        `${name} is at ${blocked}, which the egress rule blocks`,
        `to allow it, add ${blocked} to LEAT_EGRESS_ALLOW`,
      ),
    );
  }
  if (wrong.length > 0) return wrong;
  return [ok('receivers', allowedText(hosts.length))];
}

function allowedText(hosts: number): string {
  if (hosts === 0) return 'no enabled stream sends to the network';
  return hosts === 1
    ? 'the only host of streams is allowed'
    : `all ${hosts} hosts of streams are allowed`;
}

async function alertFindings(config: Config, deps: DoctorDeps): Promise<Finding[]> {
  const { alertWebhookUrl, alertEmail } = config;
  const { testAlert } = deps;
  if (alertWebhookUrl === undefined && alertEmail === undefined) {
    const next = 'set LEAT_ALERT_WEBHOOK_URL, or LEAT_ALERT_EMAIL with LEAT_SMTP_URL';
    const text = 'they are written to the log only';
    if (testAlert === undefined) return [warn('alerts', text, next)];
    return [bad('alerts', `${text}, so no test alert was sent`, next)];
  }
  if (testAlert === undefined) {
    return [ok('alerts', 'are configured; --test-alert sends a test alert')];
  }
  return testAlertFindings(testAlert, config, deps);
}

async function testAlertFindings(
  channels: readonly AlertChannel[],
  config: Config,
  { clock, signal }: DoctorDeps,
): Promise<Finding[]> {
  const urlOf = (domain: string): string => issuerOf(domain, usesPlainHttp(config, domain));
  const tenant = { name: config.tenantName, domain: tenantDomainOf(config) };
  const test = { channels, clock, settings: limits.alerts, urlOf };
  const results = await sendTestAlert(test, tenant, signal);
  return results.map(({ channel, reason }) =>
    reason === undefined
      ? ok('alerts', `${channel} accepted a test alert`)
      : bad(
          'alerts',
          `${channel}: ${reason}`,
          `check the setting of ${channel} and whether this machine can connect to it`,
        ),
  );
}

const nodeMajorMin = 26;

function versionFinding(nodeVersion: string): Finding {
  const major = Number(/^v(?<major>[0-9]+)/.exec(nodeVersion)?.groups?.['major']);
  if (major >= nodeMajorMin) return ok('versions', `Node ${nodeVersion}`);
  return bad('versions', `Node ${nodeVersion} is too old`, `use Node ${nodeMajorMin} or newer`);
}

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
