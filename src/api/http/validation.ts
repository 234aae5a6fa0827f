import type { FastifySchemaCompiler } from 'fastify';
import { compile, type TSchema } from '../../schemas/schema.ts';
import { badBody, badPath, badQuery, type Problem } from './problem.ts';
import { parseQuery, type QueryText } from './query.ts';
import { firstViolation, type Violation } from './violation.ts';

/** Returns for a valid value, throws the problem of an invalid one. */
export type Check = (value: unknown) => void;

/** Compiles the schema of a route's path or query for Fastify. The query is parsed by the schema first. */
export const validatorOf: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const isQuery = httpPart === 'querystring';
  const problemOf = isQuery ? badQuery : badPath;
  const check = checkOf(schema, ({ reason, property, description }) =>
    problemOf(reason, property, description),
  );
  return (sent: unknown) => {
    const value = isQuery ? parseQuery(schema, (sent as QueryText).text) : sent;
    check(value);
    return { value };
  };
};

/** Compiles the schema of a body. */
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

/** The compiled validator decides; it knows keywords that {@link firstViolation} cannot explain. */
const unexplained: Violation = { reason: 'Not valid', property: 'body', description: bodyText };
