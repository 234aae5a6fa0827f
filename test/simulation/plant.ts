import { registerHooks } from 'node:module';
import { plantedFaults, type PlantedFault } from './planted.ts';

const source = new URL('../../src/', import.meta.url);

/** The file with the fault in it. Throws when the patch does not fit. */
export function plantedIn(text: string, { name, before, after }: PlantedFault): string {
  const parts = text.split(before);
  if (parts.length !== 2) {
    throw new Error(`"${name}" fits in ${parts.length - 1} places: mend its patch in planted.ts`);
  }
  return parts.join(after);
}

/** Where the fault is planted. */
export const fileOf = ({ file }: PlantedFault): URL => new URL(file, source);

/** From now on this thread imports the file with the fault in it. */
export function plant(name: string): void {
  const fault = plantedFaults.find((one) => one.name === name);
  if (fault === undefined) throw new Error(`No fault is called "${name}".`);
  const target = fileOf(fault).href;
  registerHooks({
    load: (url, context, next) => {
      const loaded = next(url, context);
      if (url !== target || loaded.source === undefined || loaded.source === null) return loaded;
      const text = Buffer.from(loaded.source as Uint8Array).toString('utf8');
      return { ...loaded, source: plantedIn(text, fault) };
    },
  });
}
