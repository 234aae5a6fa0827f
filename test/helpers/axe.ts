import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';

/** An element of a page that breaks a rule of axe-core. */
export interface AxeFinding {
  /** Id of the rule, such as `color-contrast`. */
  readonly rule: string;
  /** CSS selector of the element; parts of a shadow tree or frame are joined by a space. */
  readonly element: string;
  /** What axe-core says that is wrong, one line. */
  readonly problem: string;
}

export interface AxeOptions {
  /** CSS selector of the part to check; absent: the whole page. */
  readonly within?: string;
  /** Ids of rules that are not checked; the caller says why. */
  readonly exceptRules?: readonly string[];
}

/** The tags of the rules for WCAG 2.2, levels A and AA: each version adds to the former. */
const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

/**
 * Returns what axe-core finds wrong with a page as it is now (WCAG 2.2 A and AA), one entry for each
 * rule and element; empty when it finds nothing. Hidden parts are not checked: show them first.
 */
export async function axeFindings(page: Page, options: AxeOptions = {}): Promise<AxeFinding[]> {
  await inject(page);
  const rules = (options.exceptRules ?? []).map((rule) => [rule, { enabled: false }] as const);
  const settings = {
    runOnly: { type: 'tag', values: tags },
    rules: Object.fromEntries(rules),
    resultTypes: ['violations'],
  };
  const context = JSON.stringify(options.within ?? null);
  const { violations } = await page.evaluate<AxeResults>(
    `axe.run(${context} ?? document, ${JSON.stringify(settings)})`,
  );
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary = '' }) => ({
      rule: id,
      element: target.flat().join(' '),
      problem: failureSummary.replaceAll(/\s+/g, ' ').trim(),
    })),
  );
}

/** The part of the results of axe-core that is read. */
interface AxeResults {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly {
      readonly target: readonly (string | readonly string[])[];
      readonly failureSummary?: string;
    }[];
  }[];
}

/**
 * Evaluates axe-core in the page unless it is there. `page.addScriptTag` would add an inline script,
 * which the Content-Security-Policy of Leat's pages refuses; and a context with `bypassCSP` would not
 * show whether a page works under its policy. The debugger's evaluation is not subject to the policy.
 */
async function inject(page: Page): Promise<void> {
  if (await page.evaluate<boolean>(`typeof axe === 'object'`)) return;
  const file = fileURLToPath(import.meta.resolve('axe-core/axe.min.js'));
  await page.evaluate(await readFile(file, 'utf8'));
}
