import { realpathSync } from 'node:fs';
import { delimiter, join, sep } from 'node:path';
import { isSea } from 'node:sea';
import { variablesOverLogin } from '../cli/env.ts';
import { loadCliEnv } from '../config.ts';

/** How this process was started, and what else a shell would start. */
export interface ProgramStart {
  /** The file that was started, symbolic links resolved. */
  readonly entry: string;
  /** Node, or the program itself where both are one executable; symbolic links resolved. */
  readonly executable: string;
  /** The files that `leat` names on the search path, symbolic links resolved. */
  readonly named: readonly string[];
}

/**
 * Returns the words with which a shell starts this program again, in any folder: `leat` only where that
 * is this program. The others are longer, but a printed command must work as it is.
 */
export function leatWords({ entry, executable, named }: ProgramStart): readonly string[] {
  if (named[0] === entry) return ['leat'];
  if (entry === executable) return [entry];
  const inCheckout = `${sep}src${sep}main.ts`;
  // Node of the path may be another version than the one of the checkout.
  if (entry.endsWith(inCheckout)) {
    return ['npm', '--prefix', entry.slice(0, -inCheckout.length), 'run', '-s', 'leat', '--'];
  }
  return [executable, entry];
}

/**
 * Returns the words with which a shell starts this program again. Variables that would lead the command to
 * another server than a stored login are made empty, which counts as not set: a shell that is opened next
 * is likely to have them too.
 */
export function wordsOfThisProgram(): readonly string[] {
  const env = loadCliEnv();
  const executable = resolved(process.execPath);
  // Of a single executable the second word is whatever the shell was given, also a name without a folder.
  const entry = isSea() ? executable : resolved(process.argv[1] ?? executable);
  const words = leatWords({ entry, executable, named: leatsOn(env.path ?? '') });
  return [...variablesOverLogin(env).map((name) => `${name}=`), ...words];
}

function leatsOn(searchPath: string): readonly string[] {
  // npm adds such folders for the commands that it runs: other shells do not have them.
  const isOfNpm = (folder: string): boolean => folder.endsWith(join('node_modules', '.bin'));
  const folders = searchPath.split(delimiter).filter((folder) => folder !== '' && !isOfNpm(folder));
  return folders.flatMap((folder) => {
    try {
      return [realpathSync(join(folder, 'leat'))];
    } catch {
      return [];
    }
  });
}

function resolved(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}
