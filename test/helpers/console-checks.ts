import assert from 'node:assert/strict';
import type { Locator } from 'playwright-core';
import type { OpenConsole } from './console-page.ts';

/** Moves the focus to a control by the Tab key alone. */
export async function tabTo(control: Locator): Promise<void> {
  const page = control.page();
  await control.waitFor();
  for (let presses = 0; presses < 150; presses += 1) {
    if ((await control.and(page.locator(':focus')).count()) > 0) return;
    await page.keyboard.press('Tab');
  }
  assert.fail('the Tab key does not lead to the control');
}

/** Checks a page on a phone, then on a screen: axe finds nothing, and it does not scroll sideways. */
export async function checkWidths({ page, findings }: OpenConsole, name = ''): Promise<void> {
  for (const [width, height] of [
    [390, 844],
    [1440, 900],
  ] as const) {
    await page.setViewportSize({ width, height });
    assert.deepEqual(await findings(), [], `${name} ${width}`);
    const isWider = 'document.documentElement.scrollWidth > innerWidth';
    assert.equal(await page.evaluate(isWider), false, `${name} ${width}`);
  }
}
