/** Where the management API writes what clients are not told; a pino logger fits. */
export interface Log {
  error(facts: Readonly<Record<string, unknown>>, message: string): void;
  warn(facts: Readonly<Record<string, unknown>>, message: string): void;
}
