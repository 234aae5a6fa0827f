import type { Run } from './command.ts';
import { usageError } from './errors.ts';

/**
 * Asks whether to make a change that cannot be undone and returns the reply. Throws a usage error
 * without a terminal, so that a script never deletes by accident.
 */
export async function confirmed(
  { terminal }: Pick<Run, 'terminal'>,
  question: string,
  yes: boolean | undefined,
): Promise<boolean> {
  if (yes === true) return true;
  if (!terminal.interactive) {
    throw usageError('There is no terminal to ask for confirmation: add --yes to do it without.');
  }
  const answer = await terminal.ask(`${question} [y/N] `);
  if (/^y(?:es)?$/i.test(answer.trim())) return true;
  terminal.note('Nothing was changed.');
  return false;
}
