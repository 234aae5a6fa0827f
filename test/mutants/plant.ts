import fs from 'node:fs';
import { registerHooks, syncBuiltinESMExports } from 'node:module';
import { mutantOf } from './all.ts';
import { fileOf, type Mutant, mutated } from './mutant.ts';

/** From now on this thread imports, or reads, the file of the mutant with the mistake in it. */
export function plant(name: string): void {
  const mutant = mutantOf(name);
  const target = fileOf(mutant).href;
  if (!target.endsWith('.ts')) return plantInRead(mutant);
  registerHooks({
    load: (url, context, next) => {
      const loaded = next(url, context);
      if (url !== target || loaded.source === undefined || loaded.source === null) return loaded;
      const text = Buffer.from(loaded.source as Uint8Array).toString('utf8');
      return { ...loaded, source: mutated(text, mutant) };
    },
  });
}

/** Migrations are read, not imported. */
function plantInRead(mutant: Mutant): void {
  const read = fs.readFileSync;
  const readMutated = (path: unknown, ...rest: unknown[]): unknown => {
    const found = (read as (...args: unknown[]) => unknown)(path, ...rest);
    const isTarget = path instanceof URL && path.href === fileOf(mutant).href;
    return isTarget ? mutated(String(found), mutant) : found;
  };
  fs.readFileSync = readMutated as typeof read;
  syncBuiltinESMExports();
}
