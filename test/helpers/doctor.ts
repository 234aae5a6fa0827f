import { join } from 'node:path';
import type { Finding } from '../../src/operator/finding.ts';
import { runLeat, storeEnvironment, type TempStore } from './leat.ts';

/** Runs `leat doctor --json` as a process, with the settings over those of the store. */
export async function doctor(
  tempStore: TempStore,
  settings: Readonly<Record<string, string>> = {},
  ...words: string[]
): Promise<{ code: number | null; findings: Finding[] }> {
  const env = { ...doctorEnvironment(tempStore), ...settings };
  const { code, output } = await runLeat(['doctor', '--json', ...words], env, {
    cwd: tempStore.folder,
  });
  try {
    return { code, findings: JSON.parse(output) as Finding[] };
  } catch (error) {
    throw new Error(`leat doctor printed no JSON: ${output}`, { cause: error });
  }
}

export function doctorEnvironment(tempStore: TempStore): Record<string, string> {
  return { ...storeEnvironment(tempStore), HOME: join(tempStore.folder, 'home') };
}

/** Returns the findings of one check as `level: text`. */
export function textsOf(findings: readonly Finding[], check: string): string[] {
  return findings
    .filter((finding) => finding.check === check)
    .map(({ level, said }) => `${level}: ${said}`);
}
