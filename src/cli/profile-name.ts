import type { Profiles } from './http/credentials.ts';
import { defaultProfile } from './http/session.ts';

/** Returns the first of `name`, `name-2`, `name-3`, … that is not taken. */
export function freeName(name: string, taken: readonly string[]): string {
  const names = [name, ...taken.map((_name, index) => `${name}-${index + 2}`)];
  return names.find((each) => !taken.includes(each)) ?? name;
}

/**
 * Returns the name under which a login for a server replaces none for another server; `undefined` for the
 * default one.
 */
export function nameBesides(profiles: Profiles, url: string): string | undefined {
  const present = profiles[defaultProfile];
  if (present === undefined || present.url === url) return undefined;
  const others = Object.entries(profiles).filter((entry) => entry[1].url !== url);
  return freeName(
    'local',
    others.map(([name]) => name),
  );
}
