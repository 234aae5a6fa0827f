/** SQLite, type stripping and `argon2` differ in older ones: docs/adr/0002. */
const majorMin = 26;

/**
 * Returns why the program must not run on a version of Node, as in `process.versions.node`;
 * `undefined` for one that it can run on.
 */
export function nodeViolation(version: string): string | undefined {
  if (Number.parseInt(version, 10) >= majorMin) return undefined;
  return `Leat needs Node ${majorMin} or newer, this is ${version}: run it through npm after \`npm ci\`, or install Node ${majorMin} where npm has none for the platform.`;
}
