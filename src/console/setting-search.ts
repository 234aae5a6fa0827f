import type { NodeSettingsShown } from '../schemas/node-settings.ts';

export type Setting = NodeSettingsShown['settings'][number];

/** Returns the settings that have all words of a text in their name or meaning, changed ones first. */
export function settingsWith(settings: readonly Setting[], text: string): Setting[] {
  const words = text.toLowerCase().split(/\s+/);
  return settings
    .filter(({ name, meaning }) => {
      const searched = `${name} ${meaning}`.toLowerCase();
      return words.every((word) => searched.includes(word));
    })
    .toSorted((one, other) => Number(one.is_default) - Number(other.is_default));
}
