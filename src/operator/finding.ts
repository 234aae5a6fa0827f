import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** The result of one check of `leat doctor`. */
export interface Finding {
  /** `note`: nothing is wrong, or it cannot be seen; an operator should know it. */
  readonly level: 'ok' | 'note' | 'warn' | 'bad';
  /** Name of the check, one or two words. */
  readonly check: string;
  /** The result as text; the name is that of the field in --json. */
  readonly said: string;
  /** The command or setting that fixes it; absent with `ok`. */
  readonly next?: string | undefined;
}

export function ok(check: string, text: string): Finding {
  return { level: 'ok', check, said: text };
}

export function note(check: string, text: string, next: string): Finding {
  return { level: 'note', check, said: text, next };
}

export function warn(check: string, text: string, next: string): Finding {
  return { level: 'warn', check, said: text, next };
}

export function bad(check: string, text: string, next: string): Finding {
  return { level: 'bad', check, said: text, next };
}

/** Returns lines for a terminal: each result, followed by its fix. */
export function findingLines(findings: readonly Finding[]): string[] {
  const width = Math.max(0, ...findings.map(({ check }) => check.length));
  return findings.flatMap(({ level, check, said, next }) => [
    `${level.padEnd(4)}  ${check.padEnd(width)}  ${said}`,
    ...(next === undefined ? [] : [`${' '.repeat(width + 8)}→ ${next}`]),
  ]);
}

/** Returns the error of a check as a finding, so that the other checks still run. */
export function failed(check: string, error: unknown, next: string): Finding {
  return bad(check, error instanceof Error ? error.message : String(error), next);
}

/**
 * Returns the findings with the whole path of each document that they name, such as `docs/secrets.md`,
 * where the folder of the program has it. The single executable has no documents.
 */
export function withDocumentPaths(
  findings: readonly Finding[],
  programFolder: string | undefined,
): readonly Finding[] {
  if (programFolder === undefined) return findings;
  return findings.map((finding) => ({
    ...finding,
    ...(finding.next !== undefined && {
      next: finding.next.replace(/\bdocs\/[a-z-]+\.md\b/g, (path) => {
        const file = join(programFolder, path);
        return existsSync(file) ? file : path;
      }),
    }),
  }));
}
