import { Type, type Static } from 'typebox';
import { closed } from './schema.ts';

/** Selects the fields of the resources in a response. */
export const fieldsQuery = {
  fields: Type.Optional(
    Type.String({ maxLength: 1024, description: 'Fields of the response, separated by commas' }),
  ),
  include_fields: Type.Optional(
    Type.Boolean({ default: true, description: 'False: all fields but those in fields' }),
  ),
};

/** Query of one resource. */
export const oneQuery = closed(fieldsQuery);

export type FieldsQuery = Static<typeof oneQuery>;
