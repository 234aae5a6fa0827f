import { dataFolderOf } from '../config.ts';
import { StartRefused, StoreUnavailable } from '../core/errors.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import type { Rotation, RotationStart, RotationStep, SecretStore } from '../store/port/secrets.ts';
import { entryOfCommand } from './audit-log.ts';
import type { Args, Call, CommandDeps } from './command.ts';
import { dropFormerKey, prepareKeyFile } from './key-file.ts';
import { countText } from './table.ts';

/**
 * Changes the key that seals stored secrets to the first one of LEAT_SECRET_KEY, or to a new one in
 * the data folder, and seals everything again. An interrupted run continues when it is repeated.
 */
export async function rotateSecrets(deps: CommandDeps, _args: Args, call: Call): Promise<string> {
  const text = await deps.store.secrets.alone(() => rotate(deps, call));
  if (text !== undefined) return text;
  throw new StartRefused(
    'Another leat secrets rotate is running in this server: wait for its end.',
  );
}

async function rotate(deps: CommandDeps, call: Call): Promise<string> {
  const { store, config } = deps;
  const { secrets } = store;
  if (config.store.engine === 'sqlite' && config.store.file === undefined) {
    throw new StartRefused('LEAT_STORE: a store in memory ends with its key.');
  }
  if (config.secretKeys !== undefined) {
    const [target = ''] = secrets.keys();
    return textOf(secrets, target, await sealAgain(deps, target, call));
  }
  const file = { folder: dataFolderOf(config), secrets, random: deps.random };
  const target = await prepareKeyFile(file);
  const result = await sealAgain(deps, target, call);
  if ('lacking' in result || 'unfinished' in result) return textOf(secrets, target, result);
  const kept = await dropFormerKey(file, target);
  return [
    'done' in result ? `Key ${target} seals every stored secret.` : sealedLine(result, target),
    ...brokenLines(result),
    `secret.key in ${file.folder} has this key alone; keep a copy of it.`,
    ...(kept === undefined ? [] : [`Backups from before need the former key: ${kept} has it.`]),
  ].join('\n');
}

type Result = Sealed | Exclude<RotationStart, { begun: unknown }>;

interface Sealed extends Pick<RotationStep, 'rows' | 'values' | 'broken'> {
  readonly former: string;
}

/** Two commands that change to the same key may disturb each other once each. */
const roundsMax = 3;

async function sealAgain(deps: CommandDeps, target: string, call: Call): Promise<Result> {
  const { secrets } = deps.store;
  const finish = await finishOf(deps, target);
  for (let round = 1; round <= roundsMax; round += 1) {
    const start = await secrets.begin(target);
    if (!('begun' in start)) return start;
    const sealed = await resumable(() => sealAll({ ...secrets, finish }, start.begun, call));
    if (sealed !== undefined) return sealed;
  }
  throw new StartRefused(
    'Another leat secrets rotate changes the key at the same time: wait for its end and run this again.',
  );
}

/** Returns the end of a rotation, which the log of the first tenant records. */
async function finishOf(deps: CommandDeps, target: string): Promise<SecretStore['finish']> {
  const { store } = deps;
  const [first] = await store.tenants.list();
  if (first === undefined) return store.secrets.finish;
  const entry = entryOfCommand(deps, 'secrets rotate')(first.id, [target]);
  return store.recording(entry).secrets.finish;
}

/** Returns `undefined` when another command has changed the rotation. */
async function sealAll(
  secrets: SecretStore,
  rotation: Rotation,
  { signal, progress }: Call,
): Promise<Sealed | undefined> {
  let after: RotationStep['next'];
  let [rows, values, seen] = [0, 0, 0];
  const broken: RotationStep['broken'][number][] = [];
  do {
    signal.throwIfAborted();
    const step = await secrets.step(rotation, after);
    if (step === undefined) return undefined;
    rows += step.rows;
    values += step.values;
    seen += step.seen;
    broken.push(...step.broken);
    progress({ step: 'sealing rows again', done: seen });
    after = step.next;
    await yieldToEventLoop();
  } while (after !== undefined);
  if (!(await secrets.finish(rotation))) return undefined;
  return { rows, values, broken, former: rotation.state.former };
}

async function resumable<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    throw new StartRefused(
      `The change of the key is unfinished, run leat secrets rotate again to resume it: ${error.message}`,
      { cause: error },
    );
  }
}

function textOf(secrets: SecretStore, target: string, result: Result): string {
  if ('lacking' in result) throw new StartRefused(lackingText(result));
  if ('unfinished' in result) throw new StartRefused(unfinishedText(result));
  const others = secrets.keys().filter((id) => id !== target);
  if ('done' in result) return doneText(target, others);
  const lines = [sealedLine(result, target), ...brokenLines(result)];
  if (others.length === 0) return lines.join('\n');
  return [...lines, ...removalLines(others)].join('\n');
}

function sealedLine({ rows, values, former }: Sealed, target: string): string {
  const what = `Sealed ${countOf(values, 'value')} in ${countOf(rows, 'row')} again`;
  return `${what} with key ${target}. Key ${former} seals nothing any more.`;
}

function countOf(count: number, noun: string): string {
  return `${countText(count)} ${noun}${count === 1 ? '' : 's'}`;
}

function doneText(target: string, others: readonly string[]): string {
  const done = `Key ${target} seals every stored secret: nothing to do.`;
  if (others.length > 0) return [done, ...removalLines(others)].join('\n');
  return `${done}
To change it, put a new key in front: LEAT_SECRET_KEY=<new>,<present> on every node.
openssl rand -base64 32 prints one. Restart the nodes, then run leat secrets rotate again.`;
}

function removalLines(others: readonly string[]): string[] {
  return [
    `Remove key ${others.join(',')} from LEAT_SECRET_KEY of every node, and restart the nodes one by one.`,
    'Backups from before need it: keep it with them.',
  ];
}

const shownMax = 10;

function brokenLines(result: Result): string[] {
  if (!('broken' in result) || result.broken.length === 0) return [];
  const { broken } = result;
  return [
    `${countOf(broken.length, 'value')} opened with no key, or at another place only:`,
    ...broken
      .slice(0, shownMax)
      .map(
        ({ table, tenant, row, column }) => `  ${column} of ${row} in ${table}, tenant ${tenant}`,
      ),
    ...(broken.length > shownMax ? ['  …'] : []),
  ];
}

function lackingText({ lacking, key }: Extract<RotationStart, { lacking: unknown }>): string {
  const lines = lacking.map(({ id, keys }) => `  ${id}  has ${keys.join(',')}`);
  return `Nothing was changed. These nodes lack key ${key}:
${lines.join('\n')}
Restart them with LEAT_SECRET_KEY=<new>,<present>, then run leat secrets rotate again.`;
}

function unfinishedText({ unfinished }: Extract<RotationStart, { unfinished: unknown }>): string {
  const { key, former } = unfinished;
  return `The change from key ${former} to key ${key} is unfinished: put key ${key} in front of LEAT_SECRET_KEY and run leat secrets rotate first.`;
}
