/** What a check of `leat doctor` found. */
export interface Finding {
  readonly level: 'ok' | 'warn' | 'bad';
  /** What was checked, one or two words. */
  readonly check: string;
  readonly said: string;
  /** The command or setting to use; absent where all is well. */
  readonly next?: string | undefined;
}

export function ok(check: string, said: string): Finding {
  return { level: 'ok', check, said };
}

export function warn(check: string, said: string, next: string): Finding {
  return { level: 'warn', check, said, next };
}

export function bad(check: string, said: string, next: string): Finding {
  return { level: 'bad', check, said, next };
}

/** Lines for a person; what to do stands below what was found. */
export function findingLines(findings: readonly Finding[]): string[] {
  const width = Math.max(0, ...findings.map(({ check }) => check.length));
  return findings.flatMap(({ level, check, said, next }) => [
    `${level.padEnd(4)}  ${check.padEnd(width)}  ${said}`,
    ...(next === undefined ? [] : [`${' '.repeat(width + 8)}→ ${next}`]),
  ]);
}

/** The error of a check as a finding: no check ends the others. */
export function failed(check: string, error: unknown, next: string): Finding {
  return bad(check, error instanceof Error ? error.message : String(error), next);
}
