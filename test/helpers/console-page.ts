import assert from 'node:assert/strict';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { axeFindings, type AxeFinding, type AxeOptions } from './axe.ts';
import type { Scope } from './cluster.ts';
import type { ConsoleData } from './console-data.ts';
import { startConsoleService } from './console-service.ts';
import {
  createTempStore,
  freePort,
  runLeat,
  type Running,
  startLeat,
  storeEnvironment,
  type TempStore,
} from './leat.ts';
import { sharedPostgres } from './postgres.ts';

/** The console of a real service in a real browser; `console.ts` has it for tests. */

export type ConsoleRole = 'viewer' | 'support' | 'operator';

/** A service whose console is opened. */
export interface Installation {
  readonly leat: Running;
  /** The origin of the console. */
  readonly origin: string;
  /** What it was filled with; absent of an empty one. */
  readonly data: ConsoleData | undefined;
  /** Makes a one-time link with the operator's command. */
  link(role?: ConsoleRole): Promise<string>;
  /** Kills the service as `kill -9` does, and starts it again on the same store and port. */
  restart(): Promise<void>;
  /** Runs a command of the operator and returns what it prints. Rejects when it fails. */
  operator(...args: readonly string[]): Promise<string>;
}

export interface InstallationOptions {
  readonly engine?: 'SQLite' | 'PostgreSQL';
  /** `filled` by default; `past` also has a past of weeks, on SQLite. */
  readonly content?: 'empty' | 'filled' | 'past';
  readonly settings?: Readonly<Record<string, string>>;
  /** Where it listens; a free port by default. */
  readonly port?: number;
  /** Nodes of an empty one on PostgreSQL: 1 by default; `leat` and `origin` are those of the first. */
  readonly nodes?: number;
  /** Open failures of the largest group: fewer than on screenshots unless given, for quick tests. */
  readonly largestGroup?: number;
  readonly progress?: (text: string) => void;
}

/** Starts a service, empty or filled, that ends with the scope. */
export async function startInstallation(
  scope: Scope,
  {
    engine = 'SQLite',
    content = 'filled',
    settings = {},
    nodes = 1,
    port: given,
    ...options
  }: InstallationOptions = {},
): Promise<Installation> {
  const tempStore = await createTempStore();
  const port = given ?? (await freePort());
  const { store, drop } = await storeOn(engine);
  const domain = `localhost:${port}`;
  const all = { ...store, LEAT_PORT: String(port), LEAT_TENANT_DOMAIN: domain, ...settings };
  const ends: (() => Promise<unknown>)[] = [drop, tempStore.remove];
  scope.after(async () => {
    for (const end of ends) await end();
  });
  const env = { ...storeEnvironment(tempStore), ...all };
  const link = (role: ConsoleRole = 'operator'): Promise<string> =>
    oneTimeLink(role, env, tempStore);
  const operator = async (...args: readonly string[]): Promise<string> => {
    const { code, output } = await runLeat(args, env, { cwd: tempStore.folder });
    assert.equal(code, 0, output);
    return output;
  };
  const origin = `http://${domain}`;
  if (content === 'empty') {
    let leat = await startLeat(tempStore, all);
    ends.unshift(() => leat.kill());
    for (let node = 1; node < nodes; node += 1) {
      const other = await startLeat(tempStore, { ...all, LEAT_PORT: String(await freePort()) });
      ends.unshift(other.kill);
    }
    const restart = async (): Promise<void> => {
      await leat.kill();
      leat = await startLeat(tempStore, all);
    };
    return {
      get leat() {
        return leat;
      },
      origin,
      data: undefined,
      link,
      operator,
      restart,
    };
  }
  const service = await startConsoleService(tempStore, {
    settings: all,
    past: content === 'past',
    largestGroup: 120,
    ...options,
  });
  ends.unshift(service.close);
  return {
    get leat() {
      return service.leat;
    },
    origin,
    data: service.data,
    link,
    operator,
    restart: service.restart,
  };
}

async function storeOn(
  engine: 'SQLite' | 'PostgreSQL',
): Promise<{ readonly store: Readonly<Record<string, string>>; drop(): Promise<void> }> {
  if (engine === 'SQLite') return { store: {}, drop: () => Promise.resolve() };
  const server = await sharedPostgres();
  const url = await server.createDatabase();
  return { store: { LEAT_STORE: url }, drop: () => server.dropDatabase(url) };
}

/** Makes a one-time link with the operator command, in the running service. */
export async function oneTimeLink(
  role: ConsoleRole,
  env: Readonly<Record<string, string>>,
  { folder }: Pick<TempStore, 'folder'>,
): Promise<string> {
  const { code, output } = await runLeat(['console', '--role', role], env, { cwd: folder });
  const link = /https?:\/\/\S+\/console\/#code=[\w-]+/.exec(output)?.[0];
  assert.ok(code === 0 && link !== undefined, `no one-time link: ${code} ${output}`);
  return link;
}

export interface OpenOptions {
  /** `operator` by default; `signed out` opens no session. */
  readonly role?: ConsoleRole | 'signed out';
  readonly width?: number;
  readonly height?: number;
  readonly theme?: 'light' | 'dark';
  /** Further options of the browser's context, for example `forcedColors` or `timezoneId`. */
  readonly context?: BrowserContextOptions;
}

/** A tab with the console. */
export interface OpenConsole {
  readonly page: Page;
  readonly installation: Installation;
  /** Ids of what the installation was filled with. */
  readonly data: ConsoleData;
  /** Opens a page, such as `/streams`, and waits until its content is there. */
  goto(path: string): Promise<void>;
  /** Waits until the content of the page is there; after a click that leads to another page. */
  ready(): Promise<void>;
  /** Real presses of a mouse button or a finger since the last `goto`, over pages. */
  clicks(): Promise<number>;
  /** What axe-core finds wrong with the page as it is now. */
  findings(options?: AxeOptions): Promise<AxeFinding[]>;
  /** Errors on the console of the browser so far: exceptions, violations of the policy, failed requests. */
  errors(): readonly string[];
}

/** Opens the console of an installation and signs in; the tab closes with the scope. */
export async function openTab(
  scope: Scope,
  browser: Browser,
  installation: Installation,
  {
    role = 'operator',
    width = 1440,
    height = 900,
    theme = 'light',
    context: more,
  }: OpenOptions = {},
): Promise<OpenConsole> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: 'reduce',
    locale: 'en-GB',
    timezoneId: 'UTC',
    hasTouch: width < 768,
    ...more,
  });
  scope.after(() => context.close());
  await context.addInitScript({ content: countPresses });
  const page = await context.newPage();
  const errors: string[] = [];
  page.on('console', (line) => {
    if (line.type() === 'error') errors.push(`${line.text()} ${line.location().url}`);
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  const content = contentSelectors[role === 'signed out' ? 'signedOut' : 'signedIn'];
  const ready = (): Promise<void> => page.locator(content).first().waitFor();
  if (role !== 'signed out') await signIn(page, await installation.link(role));
  return {
    page,
    installation,
    get data() {
      assert.ok(installation.data, 'an empty installation has no data');
      return installation.data;
    },
    goto: async (path) => {
      await page.goto(`${installation.origin}/console${path}`);
      await page.evaluate(`sessionStorage.removeItem('${pressesKey}')`);
      await ready();
    },
    ready,
    clicks: () => page.evaluate<number>(`Number(sessionStorage.getItem('${pressesKey}'))`),
    findings: (options) => axeFindings(page, options),
    errors: () => errors,
  };
}

/** Follows a one-time link, and says that it is to sign in. */
export async function followLink(page: Page, link: string): Promise<void> {
  await page.goto(link);
  await acceptLink(page);
}

/** Says that the link that a page has been led to is to sign in. */
export async function acceptLink(page: Page): Promise<void> {
  const question = page.getByRole('heading', { name: 'by this link?' });
  await question.waitFor();
  await page.getByRole('button', { name: 'Sign in as' }).click();
  await question.waitFor({ state: 'detached' });
}

/** Follows a one-time link, and waits until the console has a session. */
async function signIn(page: Page, link: string): Promise<void> {
  await followLink(page, link);
  const { signedIn, signedOut } = contentSelectors;
  await page.locator(`${signedIn}, ${signedOut}`).first().waitFor();
  const signInPage = page.locator('main.gate');
  if (await signInPage.isVisible())
    throw new Error(`not signed in: ${await signInPage.innerText()}`);
}

/** The heading of a page whose content is there: no part of it still loads. */
export const contentSelectors = {
  signedIn: 'main#page:not(:has(.skeleton)) h1',
  signedOut: 'main.gate h1',
} as const;

const pressesKey = 'test-presses';
/** Counts in the tab, as a press may lead to another document. */
const countPresses = `addEventListener('pointerdown', (event) => {
  if (!event.isTrusted) return;
  sessionStorage.setItem('${pressesKey}', Number(sessionStorage.getItem('${pressesKey}')) + 1);
}, true);`;
