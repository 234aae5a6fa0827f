import { FilterGroup, type Reader } from './reader.ts';

/** The filter groups of one tenant that have readers. */
export class FilterGroups {
  readonly #groups = new Map<string, FilterGroup>();

  /** Returns the group of these event types, in any order; creates it when there is none. */
  of(types: readonly string[] | undefined): FilterGroup {
    const sorted = types && [...new Set(types)].toSorted();
    const key = sorted?.join(',') ?? '*';
    const group = this.#groups.get(key) ?? new FilterGroup(sorted, key);
    this.#groups.set(key, group);
    return group;
  }

  /** Removes a reader from its group, and the group when it was the last. */
  remove(reader: Reader): void {
    const { group } = reader;
    group.readers.delete(reader);
    if (group.readers.size === 0) this.#groups.delete(group.key);
  }
}
