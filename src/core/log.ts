/** A log of entries with fields and a message: pino, or a list in a test. */
export interface Log {
  /** Returns whether entries of a level are written; absent where all are. */
  isLevelEnabled?(level: 'debug'): boolean;
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
