import { compile, type TSchema } from '../../schemas/schema.ts';
import { badBody, badPath, badQuery, type Problem } from './problem.ts';
import { firstViolation, type Violation } from './violation.ts';

/** Passes a value that fits, throws the problem of one that does not. */
export type Check = (value: unknown) => void;

/** Creates the check of path parameters. */
export function pathCheck(schema: TSchema): Check {
  return checkOf(schema, ({ reason, property, description }) =>
    badPath(reason, property, description),
  );
}

/** Creates the check of a query. */
export function queryCheck(schema: TSchema): Check {
  return checkOf(schema, ({ reason, property, description }) =>
    badQuery(reason, property, description),
  );
}

/** Creates the check of a body. */
export function bodyCheck(schema: TSchema): Check {
  return checkOf(schema, ({ reason, property, description }) =>
    property === '' ? badBody(reason, 'body', bodyText) : badBody(reason, property, description),
  );
}

/** The description of the body as a whole. */
export const bodyText = 'The request body';

function checkOf(schema: TSchema, problem: (violation: Violation) => Problem): Check {
  const fits = compile(schema);
  return (value) => {
    if (!fits(value)) throw problem(firstViolation(schema, value) ?? unexplained);
  };
}

/** The compiled validator decides; it knows keywords that {@link firstViolation} has no words for. */
const unexplained: Violation = { reason: 'Not valid', property: 'body', description: bodyText };
