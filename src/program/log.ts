import { styleText } from 'node:util';
import type { Logger, LoggerOptions } from 'pino';
import type { Config } from '../config.ts';
import type { ProgramContext } from './context.ts';
import { createTextLog } from './log-text.ts';
import type { TenantNames } from './tenant-names.ts';

/** The settings of the log (LEAT_LOG_LEVEL, LEAT_LOG_FORMAT). */
export type LogSettings = Pick<Config, 'logLevel' | 'logFormat'>;

/**
 * Opens the log of the process on the standard error: JSON for programs, or text on a terminal. An
 * entry with the number of a tenant gets its name, too, where `names` has it.
 */
export async function openLog(
  { logLevel: level, logFormat: format }: LogSettings,
  { clock, stderr }: Pick<ProgramContext, 'clock' | 'stderr'>,
  names: TenantNames = new Map(),
): Promise<Logger> {
  const { default: pino } = await import('pino');
  const options: LoggerOptions = {
    level,
    base: null,
    formatters: { log: (fields) => withTenantName(fields, names) },
  };
  const output = pino.destination({ fd: 2, sync: true });
  if (!isTextLog(format, stderr)) return pino(options, output);
  const log = createTextLog({
    clock,
    write: (text) => output.write(text),
    colour: (colour, text) => styleText(colour, text, { stream: stderr }),
  });
  process.on('exit', log.flush);
  return pino(options, log);
}

/** Returns whether the log is text instead of JSON. */
export function isTextLog(
  format: LogSettings['logFormat'],
  stderr: Pick<NodeJS.WriteStream, 'isTTY'>,
): boolean {
  return format === 'auto' ? stderr.isTTY : format === 'text';
}

function withTenantName(
  fields: Record<string, unknown>,
  names: TenantNames,
): Record<string, unknown> {
  const { tenant } = fields;
  const tenantName = typeof tenant === 'number' ? names.get(tenant) : undefined;
  return tenantName === undefined ? fields : { ...fields, tenantName };
}
