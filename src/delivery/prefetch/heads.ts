import type { LogStore } from '../../store/port/log.ts';
import { tenantsOf } from '../../core/tenant-blocks.ts';
import type { Prefetch } from './prefetch.ts';
import type { Ownership } from '../ownership.ts';
import type { StoreRetry } from '../store-retry.ts';
import type { Runner } from '../runner.ts';
import type { Tail } from '../../log/tail.ts';

/** Reads the heads of the logs from the store, as hints may be lost. */
export interface Heads {
  /** Reads on in the logs that have grown since the last call. */
  checkChanged(): Promise<void>;
  /** Drops all tails and continues each at the head of its log in the store. */
  skipToAll(): Promise<void>;
}

export interface HeadsDeps {
  readonly log: Pick<LogStore, 'heads' | 'headMarks'>;
  readonly storeRetry: StoreRetry;
  readonly ownership: Pick<Ownership, 'tails'>;
  readonly prefetch: Pick<Prefetch, 'skipped' | 'reached'>;
}

type Tails = readonly (readonly [tenant: number, Tail<Runner>])[];

/** See {@link Heads}. */
export function createHeads({ log, storeRetry, ownership, prefetch }: HeadsDeps): Heads {
  /** The marks of the blocks whose heads are known. */
  let marks: ReadonlyMap<number, string> = new Map();

  const readHeads = async (
    tails: Tails,
    use: (tenant: number, tail: Tail<Runner>, head: number) => void,
  ): Promise<void> => {
    if (tails.length === 0) return;
    const tenants = tails.map(([tenant]) => tenant);
    const heads = await storeRetry.run(() => log.heads(tenants));
    for (const [index, [tenant, tail]] of tails.entries()) use(tenant, tail, heads[index] ?? 0);
  };
  const tailsIn = (block: number): Tails =>
    [...tenantsOf(block)].flatMap((tenant) => {
      const tail = ownership.tails.get(tenant);
      return tail === undefined ? [] : [[tenant, tail] as const];
    });

  return {
    checkChanged: async () => {
      const present = await storeRetry.run(() => log.headMarks());
      const changed = [...present].filter(([block, mark]) => marks.get(block) !== mark);
      const tails = changed.flatMap(([block]) => tailsIn(block));
      await readHeads(tails, (tenant, tail, head) => prefetch.reached(tenant, tail, head));
      // A tail that is opened meanwhile reads its own head.
      marks = present;
    },
    skipToAll: () =>
      readHeads([...ownership.tails], (_, tail, head) => prefetch.skipped(tail, head)),
  };
}
