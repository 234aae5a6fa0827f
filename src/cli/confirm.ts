import type { Run } from './command.ts';
import { usageError } from './errors.ts';

/**
 * Asks before something is done that cannot be undone. Answers whether to do it; throws a usage
 * error where nobody can be asked, so that a script never deletes by accident.
 */
export async function confirmed(
  { terminal }: Pick<Run, 'terminal'>,
  question: string,
  yes: boolean | undefined,
): Promise<boolean> {
  if (yes === true) return true;
  if (!terminal.interactive) {
    throw usageError('Nobody can be asked here: add --yes to do it without a question.');
  }
  const answer = await terminal.ask(`${question} [y/N] `);
  if (/^y(?:es)?$/i.test(answer.trim())) return true;
  terminal.note('Nothing was done.');
  return false;
}
