import { dataFolderOf, type Loaded, showConfig } from '../config.ts';
import { useCompiledModules } from './compile-cache.ts';
import { load, print, type ProgramContext } from './context.ts';
import { credentialDelivery, generatedCredentialsFile } from './credential-delivery.ts';
import { isTextLog, openLog } from './log.ts';
import type { Service } from './service.ts';
import type { ServiceOptions } from './services.ts';
import type { Signals } from './signals.ts';
import { createWatchdog } from './watchdog.ts';

/** Runs the management API alone. */
export async function serve(
  context: ProgramContext,
  signals: Signals,
  options?: ServiceOptions,
): Promise<void> {
  const { fail } = context;
  const loaded = load();
  const compiled = useCompiledModules(dataFolderOf(loaded.config), context.version);
  const service = await startManagement(context, loaded, { ...options, command: 'serve' });
  compiled.keep();
  service.work.catch(fail);
  if (service.metricsUrl !== undefined) print(context, `Metrics are at ${service.metricsUrl}`);
  signals.onFirst((signal) => void service.stop(signal).then(() => process.exit(0), fail));
}

export interface ManagementOptions extends ServiceOptions {
  /** For the last line of a process that the watchdog ends. */
  readonly command: string;
  /** Address of the message API, for the log; absent where it is not started. */
  readonly messagesUrl?: string;
  /** Audience of the message API, for which a first start creates a sample client; absent: none. */
  readonly sampleAudience?: string;
}

/** A service that logs its end. */
export interface LoggedService extends Service {
  /** Does the same as {@link Service.stop}; the log names the signal that asked for it. */
  stop(signal?: string): Promise<void>;
}

/**
 * Starts the management API, logs that it is up, and prints where generated credentials and certificates
 * are.
 */
export async function startManagement(
  context: ProgramContext,
  { config, texts, warnings }: Loaded,
  { command, messagesUrl, sampleAudience, rename }: ManagementOptions,
): Promise<LoggedService> {
  const { clock, random, version } = context;
  const tenantNames = new Map<number, string>();
  const log = await openLog(config, context, tenantNames);
  for (const warning of warnings) log.warn(warning);
  const watchdog = createWatchdog({
    seconds: config.watchdogSeconds,
    command,
    isText: isTextLog(config.logFormat, context.stderr),
    clock,
    log,
  });
  const { openFilesWarning } = await import('../operator/process-findings.ts');
  const filesWarning = await openFilesWarning(config);
  if (filesWarning !== undefined) log.warn(filesWarning);
  const delivery = credentialDelivery(config, context);
  const { startService } = await import('./service.ts');
  const service = await startService({
    config,
    texts,
    clock,
    random,
    log,
    tenantNames,
    version,
    rename,
    watchdog,
    deliverCredentials: delivery?.management,
    sample:
      delivery === undefined || sampleAudience === undefined
        ? undefined
        : { audience: sampleAudience, deliverCredentials: delivery.sample },
  });
  watchdog.begin();
  const { generated, sampleCreated } = service.bootstrapped;
  const file = generatedCredentialsFile(config);
  if ((generated !== undefined || sampleCreated) && file !== undefined) {
    print(context, `Ids and secrets of the created clients are in ${file}`);
  }
  const { authorityFile } = service;
  if (authorityFile !== undefined) print(context, `NODE_EXTRA_CA_CERTS=${authorityFile}`);
  const store = showConfig({ config, texts }).find(({ name }) => name === 'LEAT_STORE')?.value;
  const facts = {
    version,
    management: service.url,
    messages: messagesUrl,
    metrics: service.metricsUrl,
    store,
  };
  log.info(facts, 'Leat is up');
  return {
    ...service,
    stop: async (signal) => {
      log.info({ ...facts, signal }, 'Leat stops: it completes what is in progress');
      await service.stop();
      log.info(facts, 'Leat has stopped');
    },
  };
}
