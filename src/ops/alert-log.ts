import { alertBody } from '../core/alert.ts';
import type { AlertSender } from './alert-sender.ts';

export interface AlertLog {
  error(fields: object, message: string): void;
}

/** Where alerts go that nobody has named a place for: one log entry of level error each. */
export function createAlertLog(log: AlertLog): AlertSender {
  return {
    place: 'log',
    send: ({ alert }) => {
      const { text, ...body } = alertBody(alert);
      log.error({ alert: body }, text);
      return Promise.resolve();
    },
  };
}
