/**
 * Returns the name of a stream if every shell and chat tool takes it as one plain word, else its id. So
 * no name needs quotes, looks like an option, or is taken as the id of another stream.
 */
export function wordOf({ id, name }: { readonly id: string; readonly name: string }): string {
  if (/^(?!est_)[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(name)) return name;
  return id.replaceAll(/[^\w.-]/g, '');
}
