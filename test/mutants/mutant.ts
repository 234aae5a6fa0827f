import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';

/** A test that fails with a mutant. */
export interface KillingTest {
  /** From the root of the repository. */
  readonly file: string;
  /** Its title, or that of its suite; the file, or one of `test/` that it imports, has it. */
  readonly title: string;
}

/**
 * A realistic mistake: a small patch of the source. `before` has to be there exactly once, so a patch
 * that no longer fits is noticed.
 */
export interface Mutant {
  readonly name: string;
  /** Below `src/`. */
  readonly file: string;
  readonly before: string;
  readonly after: string;
  /** Absent: the simulation finds it. */
  readonly killedBy?: KillingTest | undefined;
}

const source = new URL('../../src/', import.meta.url);

/** The file that the mutant changes. */
export const fileOf = ({ file }: Mutant): URL => new URL(file, source);

/** Returns the text of the file with the mistake in it. Throws when the patch does not fit. */
export function mutated(text: string, { name, before, after }: Mutant): string {
  const parts = text.split(before);
  if (parts.length !== 2) {
    throw new Error(`"${name}" fits in ${parts.length - 1} places: change its patch`);
  }
  return parts.join(after);
}

/** Throws when the patch does not fit, or leaves something that is no TypeScript. */
export function requireFit(mutant: Mutant): void {
  const text = mutated(readFileSync(fileOf(mutant), 'utf8'), mutant);
  if (mutant.file.endsWith('.ts')) stripTypeScriptTypes(text);
}
