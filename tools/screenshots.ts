/**
 * `npm run screenshots -- streams`: takes screenshots of the pages of the console whose names have one
 * of these texts, or of all, into `screenshots/`. With `--keep` the service stays up afterwards.
 */
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Command } from 'commander';
import type { Browser } from 'playwright-core';
import { startBrowser } from '../test/helpers/browser.ts';
import {
  type Installation,
  type OpenConsole,
  openTab,
  startInstallation,
} from '../test/helpers/console-page.ts';
import { pages, type ScreenPage, sizes, type Theme, themes } from './screenshot-pages.ts';

const program = new Command('screenshots')
  .description('Takes screenshots of the pages of the console.')
  .argument('[names...]', 'parts of the names of pages; all pages without any')
  .option('--themes <list>', 'light, dark, or both, comma separated', listed, [...themes])
  .option(
    '--widths <list>',
    'widths, comma separated',
    listed,
    sizes.map(({ width }) => `${width}`),
  )
  .option('--folder <folder>', 'where they are written', 'screenshots')
  .option('--list', 'prints the names of the pages only', false)
  .option('--keep', 'leaves the service running, and prints a one-time link', false)
  .parse();
const options = program.opts<{
  readonly themes: readonly string[];
  readonly widths: readonly string[];
  readonly folder: string;
  readonly list: boolean;
  readonly keep: boolean;
}>();
const wanted = pages.filter(
  ({ name }) => program.args.length === 0 || program.args.some((part) => name.includes(part)),
);

/** A picture to take. */
interface Shot {
  readonly page: ScreenPage;
  readonly theme: Theme;
  readonly size: (typeof sizes)[number];
}

const shots: readonly Shot[] = wanted.flatMap((page) =>
  themes.flatMap((theme) =>
    sizes
      .filter(({ width }) => (page.widths ?? [width]).includes(width))
      .filter(({ width }) => options.widths.includes(String(width)))
      .filter(() => (page.themes ?? themes).includes(theme) && options.themes.includes(theme))
      .map((size) => ({ page, theme, size })),
  ),
);

if (options.list) process.stdout.write(wanted.map(({ name }) => `${name}\n`).join(''));
else if (shots.length === 0) throw new Error('No page has this name: --list prints all');
else await run();

async function run(): Promise<void> {
  const ends: (() => Promise<void>)[] = [];
  const scope = { after: (end: () => Promise<void>) => void ends.unshift(end) };
  try {
    await mkdir(options.folder, { recursive: true });
    const { browser, close } = await startBrowser();
    scope.after(close);
    const failed: string[] = [];
    let filled: Installation | undefined;
    for (const content of ['past', 'empty'] as const) {
      const those = shots.filter(({ page }) => (page.content ?? 'past') === content);
      if (those.length === 0) continue;
      const installation = await startInstallation(scope, {
        content,
        largestGroup: 1204,
        progress: (text) => print(`${text} …`),
      });
      if (content === 'past') filled = installation;
      failed.push(...(await takeAll(browser, installation, those)));
    }
    print(`${shots.length - failed.length} of ${shots.length} in ${options.folder}/`);
    if (failed.length > 0) process.exitCode = 1;
    if (options.keep && filled !== undefined) {
      print(`${await filled.link()}\nThe service runs until Ctrl+C.`);
      await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
    }
  } finally {
    for (const end of ends) await end();
  }
}

/** Takes pictures, those of a role, theme and width in one tab; returns the names of those that failed. */
async function takeAll(
  browser: Browser,
  installation: Installation,
  those: readonly Shot[],
): Promise<string[]> {
  const failed: string[] = [];
  const tabs = Map.groupBy(those, ({ page, theme, size }) =>
    [page.role ?? 'operator', theme, size.width].join(),
  );
  let done = 0;
  for (const ofTab of tabs.values()) {
    const [first] = ofTab;
    if (first === undefined) continue;
    const ends: (() => Promise<void>)[] = [];
    const scope = { after: (end: () => Promise<void>) => void ends.unshift(end) };
    try {
      const { role = 'operator' } = first.page;
      const opened = await openTab(scope, browser, installation, {
        role,
        theme: first.theme,
        ...first.size,
      });
      for (const shot of ofTab) {
        done += 1;
        const name = `${shot.page.name}.${shot.theme}.${shot.size.width}`;
        const error = await take(opened, shot, name);
        print(`${done}/${those.length} ${name}${error === undefined ? '' : `: ${error}`}`);
        if (error !== undefined) failed.push(name);
      }
    } finally {
      for (const end of ends) await end();
    }
  }
  return failed;
}

/** Returns why a picture could not be taken; the picture then shows what was there. */
async function take(
  { page, goto, installation }: OpenConsole,
  { page: { path, prepare }, size }: Shot,
  name: string,
): Promise<string | undefined> {
  let error: string | undefined;
  try {
    const { data } = installation;
    if (typeof path === 'string') await goto(path);
    else if (data !== undefined) await goto(path(data));
    await prepare?.(page);
  } catch (failure) {
    error = String(failure).split('\n', 1)[0];
  }
  // The whole page is in view, else a bar that sticks to the edge of the screen would cross it.
  const height = await page.evaluate<number>('document.documentElement.scrollHeight');
  await page.setViewportSize({ width: size.width, height: Math.max(size.height, height) });
  await page.screenshot({ path: join(options.folder, `${name}.png`) });
  await page.setViewportSize(size);
  return error;
}

function listed(text: string): string[] {
  return text.split(',');
}

function print(text: string): void {
  process.stderr.write(`${text}\n`);
}
