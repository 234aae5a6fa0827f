import { after } from 'node:test';
import { type RunningBrowser, startBrowser } from './browser.ts';
import type { Scope } from './cluster.ts';
import {
  type Installation,
  type InstallationOptions,
  type OpenConsole,
  type OpenOptions,
  openTab,
  startInstallation,
} from './console-page.ts';

export { startInstallation } from './console-page.ts';

/**
 * Opens the console in the browser of this test file and signs in with a one-time link. Without an
 * installation it starts one, which takes ten seconds or more unless it is empty: tests that can share
 * one do (`startInstallation` in `before`).
 */
export async function openConsole(
  scope: Scope,
  {
    installation,
    ...options
  }: OpenOptions & InstallationOptions & { readonly installation?: Installation } = {},
): Promise<OpenConsole> {
  running ??= startBrowser();
  const { browser } = await running;
  return openTab(
    scope,
    browser,
    installation ?? (await startInstallation(scope, options)),
    options,
  );
}

let running: Promise<RunningBrowser> | undefined;
const ends: (() => Promise<void>)[] = [];
after(async () => {
  for (const end of ends.toReversed()) await end();
  await (await running)?.close();
});

/** What is opened with it ends after the last test of the file. */
export const fileScope: Scope = { after: (end) => void ends.push(end) };
