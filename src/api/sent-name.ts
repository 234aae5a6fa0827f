import { invisibleIn, nameForm } from '../core/name.ts';
import { badBody } from './http/problem.ts';

/** The field that a name was sent in, for the error. */
export interface NameField {
  readonly property: string;
  readonly description: string;
}

/** Returns the form in which a sent name is stored. Throws 400 if it has a character that shows nothing. */
export function sentName(text: string, field: NameField): string {
  refuseInvisible(text, field);
  return nameForm(text);
}

/** Returns the name after a PATCH. One that an earlier version stored can be sent again. */
export function changedName<B extends string | undefined>(
  before: B,
  sent: string | undefined,
  field: NameField,
): string | B {
  return sent === undefined || sent === before ? before : sentName(sent, field);
}

/** Throws 400 if a text that people tell from others by its look has a character that shows nothing. */
export function refuseInvisible(text: string, { property, description }: NameField): void {
  const invisible = invisibleIn(text);
  if (invisible === undefined) return;
  throw badBody(`Has the invisible character ${invisible}`, property, description);
}
