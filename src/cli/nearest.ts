/** Returns the candidate that differs least from a text; `undefined` when none is similar. */
export function nearestOf(text: string, candidates: readonly string[]): string | undefined {
  const differencesMax = Math.min(3, Math.floor(text.length / 3));
  let nearest: { readonly candidate: string; readonly differences: number } | undefined;
  for (const candidate of candidates) {
    const differences = differencesOf(text, candidate);
    if (differences <= differencesMax && differences < (nearest?.differences ?? Infinity)) {
      nearest = { candidate, differences };
    }
  }
  return nearest?.candidate;
}

/** Returns how many characters must be inserted, removed or replaced (the Levenshtein distance). */
function differencesOf(one: string, other: string): number {
  let before = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [row, character] of Array.from(one).entries()) {
    const now = [row + 1];
    for (const [column, otherCharacter] of Array.from(other).entries()) {
      const replaced = (before[column] ?? 0) + (character === otherCharacter ? 0 : 1);
      now.push(Math.min(replaced, (before[column + 1] ?? 0) + 1, (now[column] ?? 0) + 1));
    }
    before = now;
  }
  return before.at(-1) ?? 0;
}
