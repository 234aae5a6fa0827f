import type { Mutant } from './mutant.ts';

/** Mutants that nights find, which play the whole program: see `test/nights/table.ts`. */
export const nightMutants: readonly Mutant[] = [
  {
    name: 'an acknowledgement before the commit',
    file: 'store/appender.ts',
    before: 'const appended = await deps.write(tenant, all, leftMs);',
    after: `const writing = Promise.resolve(deps.write(tenant, all, leftMs));
    writing.catch(() => undefined);
    const appended = all.map(({ id }) => ({ id, offset: 0, repeated: false }));`,
  },
  {
    name: 'a cursor of what was taken',
    file: 'delivery/window.ts',
    before: 'return oldest === undefined ? this.#scannedTo : oldest.offset - 1;',
    after: 'return this.#scannedTo;',
  },
  {
    name: 'buffers of readers that stay in memory',
    file: 'pull/pulls.ts',
    before: 'releases.delete(reader);',
    after: `releases.delete(reader);
        ((globalThis as { kept?: Buffer[] }).kept ??= []).push(Buffer.alloc(65_536));`,
  },
];
