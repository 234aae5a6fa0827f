import type { LogStore } from '../../store/port/log.ts';
import { tenantsOf } from '../../core/tenant-blocks.ts';
import type { Prefetch } from './prefetch.ts';
import type { Ownership } from '../ownership.ts';
import type { StoreRetry } from '../store-retry.ts';
import type { Runner } from '../runner.ts';
import type { Tail } from '../../log/tail.ts';

/** Asks the store how far the logs reach, as hints of that may be lost. */
export interface Heads {
  /** Reads on where a log has grown since the last call. */
  checkChanged(): Promise<void>;
  /** Goes on after every tail where the store says that the log ends. */
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
  /** The marks of the blocks whose heads are known here. */
  let marks: ReadonlyMap<number, string> = new Map();

  const ask = async (
    tails: Tails,
    tell: (tenant: number, tail: Tail<Runner>, head: number) => void,
  ): Promise<void> => {
    if (tails.length === 0) return;
    const tenants = tails.map(([tenant]) => tenant);
    const heads = await storeRetry.run(() => log.heads(tenants));
    for (const [index, [tenant, tail]] of tails.entries()) tell(tenant, tail, heads[index] ?? 0);
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
      await ask(tails, (tenant, tail, head) => prefetch.reached(tenant, tail, head));
      // A tail that is opened meanwhile asks for its head itself.
      marks = present;
    },
    skipToAll: () => ask([...ownership.tails], (_, tail, head) => prefetch.skipped(tail, head)),
  };
}
