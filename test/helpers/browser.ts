import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { stallMsDefault } from './wait.ts';

/** A running Chromium. */
export interface RunningBrowser {
  readonly browser: Browser;
  close(): Promise<void>;
}

/**
 * Starts the Chromium of the npm package, which is built for Linux on x64, or the one that
 * `LEAT_TEST_CHROME` names. It resolves no name but `localhost`, so a
 * page can connect to nothing outside this machine.
 */
export async function startBrowser(): Promise<RunningBrowser> {
  const installed = process.env['LEAT_TEST_CHROME'];
  if (installed === undefined && `${process.platform} ${process.arch}` !== 'linux x64') {
    throw new Error('LEAT_TEST_CHROME: set it to the path of a Chrome or Chromium on this machine');
  }
  const former = process.env['TMPDIR'];
  // The package unpacks itself there, and would use the files of another version.
  const folder = await mkdtemp(join(tmpdir(), 'leat-browser-'));
  process.env['TMPDIR'] = folder;
  const remove = async (): Promise<void> => {
    if (former === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = former;
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const { default: unpacked } = await import('@sparticuz/chromium');
    const browser = await chromium.launch({
      executablePath: installed ?? (await unpacked.executablePath()),
      timeout: stallMsDefault,
      args: [
        // As root and in containers Chromium has no sandbox of its own; it sees our pages alone.
        '--no-sandbox',
        '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
      ],
    });
    browser.on('context', (context) => context.setDefaultTimeout(stallMsDefault));
    return {
      browser,
      close: async () => {
        await browser.close();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}
