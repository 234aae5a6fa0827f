import type { Browser } from 'playwright-core';
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
import { processScope } from './process-scope.ts';

export { startInstallation } from './console-page.ts';

/**
 * Opens the console in the browser of this process and signs in with a one-time link. Without an
 * installation it starts one, which takes ten seconds or more unless it is empty: tests that can share
 * one do (`filledInstallation`, or `startInstallation` in `before`).
 */
export async function openConsole(
  scope: Scope,
  {
    installation,
    ...options
  }: OpenOptions & InstallationOptions & { readonly installation?: Installation } = {},
): Promise<OpenConsole> {
  return openTab(
    scope,
    await sharedBrowser(),
    installation ?? (await startInstallation(scope, options)),
    options,
  );
}

let running: Promise<RunningBrowser> | undefined;

/** Returns the browser of this process, which is started on first use and ends with its tests. */
export async function sharedBrowser(): Promise<Browser> {
  running ??= startBrowser().then((started) => {
    processScope.after(started.close);
    return started;
  });
  return (await running).browser;
}

let filled: Promise<Installation> | undefined;

/**
 * Returns the filled installation of this process, with 60 failures in the largest group. The quick tests of several
 * files share it, so they change nothing of it; long tests may, each of their files has a process of its own.
 */
export function filledInstallation(): Promise<Installation> {
  filled ??= startInstallation(processScope, { largestGroup: 60 });
  return filled;
}

/** What is opened with it ends after the last test of the process. */
export const fileScope: Scope = processScope;
