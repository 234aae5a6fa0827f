import { useLocation } from 'preact-iso';
import { withQuery } from './request.ts';

/** The parameters of the address, which hold the whole state of a view: every view can be sent. */
export interface Parameters {
  get(name: string): string | undefined;
  /** Returns the address with these parameters instead; pages of lists begin again unless `from` is among them. */
  with(changes: Readonly<Record<string, string | undefined>>): string;
  /**
   * Goes there, and returns whether that is another address; `isReplacing` adds no step to the history, as
   * for each letter of a search.
   */
  go(changes: Readonly<Record<string, string | undefined>>, isReplacing?: boolean): boolean;
}

/** Returns the parameters of the present address. */
export function useParameters(): Parameters {
  const { path, query, route } = useLocation();
  const present = query as Readonly<Record<string, string | undefined>>;
  const changed = (changes: Readonly<Record<string, string | undefined>>): string => {
    const all = { ...present, from: undefined, ...changes };
    return withQuery(path, all);
  };
  return {
    get: (name) => present[name] || undefined,
    with: changed,
    go: (changes, isReplacing = false) => {
      const address = changed(changes);
      const isOther = address !== withQuery(path, present);
      if (isOther) route(address, isReplacing);
      return isOther;
    },
  };
}
