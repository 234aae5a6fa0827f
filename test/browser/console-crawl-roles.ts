import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import { prepareCrawl } from '../helpers/console-crawl-script.ts';
import { crawl } from '../helpers/console-crawl.ts';
import { fileScope, openConsole, startInstallation } from '../helpers/console.ts';
import { type ConsoleRole, followLink, type Installation } from '../helpers/console-page.ts';
import {
  consoleClient,
  type IdentityProvider,
  startIdentityProvider,
} from '../helpers/identity-provider.ts';
import { freePort } from '../helpers/leat.ts';
import { assertAlive, exceptions } from './console-crawl-exceptions.ts';

let installation: Installation;
let identity: IdentityProvider;

before(async () => {
  const port = await freePort();
  const roles = ['viewer', 'support', 'operator'];
  identity = await startIdentityProvider({
    people: Object.fromEntries(
      roles.map((role) => [role, { email: `${role}@example.com`, groups: [role] }]),
    ),
    redirectUris: [`http://localhost:${port}/console/callback`],
    inIdToken: true,
  });
  fileScope.after(() => identity.close());
  installation = await startInstallation(fileScope, {
    port,
    settings: {
      LEAT_CONSOLE_OIDC_ISSUER: identity.issuer,
      LEAT_CONSOLE_OIDC_CLIENT_ID: consoleClient.id,
      LEAT_CONSOLE_OIDC_CLIENT_SECRET: consoleClient.secret,
      LEAT_CONSOLE_ROLES: roles.map((role) => `main/groups:${role}=${role}`).join(','),
    },
  });
});

export const start = (): string => `${installation.origin}/console/`;

/** Uses the page for signing in, then signs in. */
const ways: Readonly<Record<string, (page: Page, role: ConsoleRole) => Promise<void>>> = {
  'a one-time link': async (page, role) => {
    await followLink(page, await installation.link(role));
  },
  'an identity provider': async (page, role) => {
    await page.goto(start());
    await page.getByRole('link', { name: 'Sign in with your identity provider' }).click();
    await page.getByRole('button', { name: role }).click();
  },
};

/** Names that pages list, longest first. */
function names(): string[] {
  const { data } = installation;
  const { streams = {}, clients = {}, roles = {}, users = {} } = data ?? {};
  const all = [streams, clients, roles, users].flatMap((each) => Object.keys(each));
  return [...all, 'one-time link'].toSorted((a, b) => b.length - a.length);
}

export async function openPage(t: TestContext): Promise<Page> {
  const { page } = await openConsole(t, { installation, role: 'signed out' });
  await prepareCrawl(page.context());
  return page;
}

/** How many elements are found at least: it may rise, not fall. */
interface Least {
  readonly first: number;
  /** By the second way of signing in: what was pressed before is found and not pressed again, nor what that opens. */
  readonly second: number;
}

/** Some of the pages, for a role that finds so many elements that one crawl takes too long. */
interface Part {
  readonly name: string;
  /** Whether it has the page of this path. */
  readonly isWithin: (path: string) => boolean;
}

/** Declares that somebody who has signed in as the role, in each way, can use every element. */
export function testRole(role: ConsoleRole, least: Least, part?: Part): void {
  const pages = part === undefined ? '' : ` on ${part.name}`;
  const within = part === undefined ? {} : { isWithin: part.isWithin };
  const known = new Set<string>();
  for (const [way, signIn] of Object.entries(ways)) {
    test(
      `${role}, signed in with ${way}: every element${pages} does something`,
      { tags: ['long'] },
      async (t) => {
        const page = await openPage(t);
        await signIn(page, role);
        await page.locator('main#page h1').waitFor();
        const expected = known.size === 0 ? least.first : least.second;
        const options = { page, start: start(), exceptions, names: names(), known, ...within };
        const found = await crawl(options);
        const count = found.pressed.length;
        const gone = found.gone.length;
        console.log(`${role}, ${way}: ${count} elements, ${gone} were gone when it was their turn`);
        for (const { element } of found.pressed) known.add(element);
        assertAlive(found);
        assert.ok(count >= expected, `${count} elements, at least ${expected} are expected`);
      },
    );
  }
}
