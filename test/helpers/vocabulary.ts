import { parseAst } from 'rolldown/parseAst';

/** A word that names used to have, and what they say instead. */
interface RetiredWord {
  /** One word, or several that follow each other in a name. */
  readonly word: string;
  readonly instead: string;
}

/** Names of a stored format, which outlives the names of the code. */
const STORED: ReadonlyMap<string, readonly string[]> = new Map([
  [
    'told',
    [
      'src/alerting/failure-summary.ts',
      'src/alerting/reported-failures.ts',
      'test/alerting/reported-failures.test.ts',
    ],
  ],
]);

/** Words of identifiers, files and tables that needed a legend. They remain ordinary words in prose. */
const RETIRED: readonly RetiredWord[] = [
  { word: 'workshop', instead: 'incarnation' },
  { word: 'rota', instead: 'scheduler' },
  { word: 'patience', instead: 'storeRetry' },
  { word: 'lane', instead: 'serialQueue, TenantQueue or fastPath' },
  { word: 'courier', instead: 'AlertDispatcher' },
  { word: 'tour', instead: 'SendRun' },
  { word: 'letter', instead: 'AlertMessage' },
  { word: 'shelf', instead: 'PageCache' },
  { word: 'seat', instead: 'ConnectionLimit' },
  { word: 'seats', instead: 'ConnectionLimit' },
  { word: 'look', instead: 'refresh, poll or check' },
  { word: 'looks', instead: 'AlertState' },
  { word: 'lookback', instead: 'ReportedFailures' },
  { word: 'troubled', instead: 'failingStreams' },
  { word: 'told', instead: 'notified or reported' },
  { word: 'tell', instead: 'publish, emit or report' },
  { word: 'hear', instead: 'onHint or onMessage' },
  { word: 'heard', instead: 'onHint or onMessage' },
  { word: 'speaker', instead: 'Publisher' },
  { word: 'notices', instead: 'ListenNotify' },
  { word: 'tally', instead: 'BatchState' },
  { word: 'judge', instead: 'applyOutcome or check' },
  { word: 'judged', instead: 'checked' },
  { word: 'verdict', instead: 'Decision, Transition or TokenVerification' },
  { word: 'misjudged', instead: 'scannedWithStaleFilter' },
  { word: 'breathe', instead: 'yieldToEventLoop' },
  { word: 'bury', instead: 'freeExpiredNodes' },
  { word: 'flaw', instead: 'claimsError' },
  { word: 'wish', instead: 'options' },
  { word: 'gate', instead: 'Authenticator' },
  { word: 'visit', instead: 'AuthContext' },
  { word: 'companion', instead: 'MessageProcess' },
  { word: 'house', instead: 'fixture' },
  { word: 'site', instead: 'fixture or SharedStore' },
  { word: 'scene', instead: 'fixture' },
  { word: 'world', instead: 'cluster or simulation' },
  { word: 'story', instead: 'api-client' },
  { word: 'forger', instead: 'TokenForge' },
  { word: 'dice', instead: 'Prng' },
  { word: 'planted', instead: 'mutants' },
  { word: 'tenant directory', instead: 'TenantLookup' },
  { word: 'create directory', instead: 'StoreCommands' },
  { word: 'fetch turns', instead: 'FetchQueue' },
  { word: 'text turns', instead: 'TextQueue' },
  { word: 'tenant turns', instead: 'TenantRotation' },
  { word: 'envelope facts', instead: 'EnvelopeFields' },
  { word: 'event facts', instead: 'UserEventFields' },
  { word: 'sample facts', instead: 'SampleContext' },
  { word: 'reader facts', instead: 'ReaderOptions' },
  { word: 'process facts', instead: 'ProcessLimits' },
  { word: 'filter stretch', instead: 'filterRange' },
  { word: 'draft mark', instead: 'draftInfix' },
  { word: 'pause passed', instead: 'pauseEnded' },
];

/**
 * Returns one sentence for each retired word in the names of a TypeScript source.
 *
 * @param path shown in the sentences
 */
export function retiredNamesIn(path: string, source: string): string[] {
  const names = new Set<string>();
  collectNames(parseAst(source, { lang: 'ts' }, path), names);
  return [...names]
    .filter((name) => !(STORED.get(name) ?? []).includes(path))
    .flatMap((name) => retiredIn(name).map((sentence) => `${path}: ${sentence}`));
}

/** Returns one sentence for each retired word in a name: of an identifier, a file or a table. */
export function retiredIn(name: string): string[] {
  const words = ` ${wordsOf(name).join(' ')} `;
  return RETIRED.filter(({ word }) => words.includes(` ${word} `)).map(
    ({ word, instead }) => `${name} has "${word}"; say ${instead}`,
  );
}

/** Splits camelCase, snake_case and file names into words in lower case. */
function wordsOf(name: string): string[] {
  return name
    .split(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+/)
    .map((word) => word.toLowerCase());
}

/** Adds the names of all identifiers below a node of the syntax tree (ESTree). */
function collectNames(node: unknown, names: Set<string>): void {
  if (typeof node !== 'object' || node === null) return;
  if ('type' in node && 'name' in node && typeof node.name === 'string') names.add(node.name);
  for (const child of Object.values(node)) collectNames(child, names);
}
