import { type Static, Type } from 'typebox';
import { closed } from './schema.ts';

/** Body of a sign-in with a one-time link. */
export const codeSent = closed({
  code: Type.String({ maxLength: 128, description: 'What the link has after #code=' }),
  ask: Type.Optional(
    Type.Boolean({
      description: 'Only return what signing in would change; the code stays unused',
    }),
  ),
});

export type CodeSent = Static<typeof codeSent>;

/** What signing in with a code would change. */
export interface CodeShown {
  /** The role of the session that would begin. */
  readonly role: string;
  /** The session of the browser, which would end. */
  readonly session?: SessionShown;
}

/** A session of the console, as it is shown to itself. */
export interface SessionShown {
  /** Name of the tenant. */
  readonly tenant: string;
  readonly domain: string;
  readonly user: string;
  readonly role: string;
  readonly scopes: readonly string[];
  /** Operations that the role may call without their scope. */
  readonly operations: readonly string[];
  /** Present when payloads are withheld. */
  readonly withheld?: boolean;
  readonly is_first_tenant: boolean;
  /** When it ends without further use. */
  readonly ends_at: string;
  /** Version of the program. */
  readonly version: string;
}
