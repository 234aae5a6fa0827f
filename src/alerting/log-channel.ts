import { alertBody } from './alert-body.ts';
import type { Clock } from '../core/clock.ts';
import type { AlertChannel } from './channel.ts';
import { createYield } from '../core/sleep.ts';

export interface AlertLog {
  error(fields: object, message: string): void;
}

/** Creates the channel for a service without others: one log entry of level error per alert. */
export function createAlertLog(
  log: AlertLog,
  clock: Pick<Clock, 'after' | 'elapsedMs'>,
): AlertChannel {
  const yieldToOthers = createYield(clock);
  return {
    name: 'log',
    send: async ({ alert, url }, signal) => {
      const { text, ...body } = alertBody(alert, url);
      log.error({ alert: body }, text);
      await yieldToOthers(signal);
    },
  };
}
