import { parseAst } from 'rolldown/parseAst';

/** Calls whose texts describe the program: they are the same for every installation. */
const helpCalls: readonly string[] = ['examples', 'option', 'Option', 'description', 'addHelpText'];

/** Returns the texts of a TypeScript source, outside of help texts, that name a command of `leat`. */
export function commandTextsIn(source: string): string[] {
  return textsIn(parseAst(source, { lang: 'ts' })).filter((text) =>
    /\bleat(?: [a-z<]| $)/.test(text),
  );
}

/** Returns the strings, the parts of templates and the lists of words below a node (ESTree). */
function textsIn(node: unknown): string[] {
  if (typeof node !== 'object' || node === null) return [];
  if ('type' in node) {
    if (node.type === 'Literal' && 'value' in node && typeof node.value === 'string')
      return [node.value];
    if (node.type === 'TemplateElement' && 'value' in node)
      return [(node.value as { readonly cooked: string }).cooked];
    if (node.type === 'ArrayExpression' && 'elements' in node)
      return [
        Object.values(node.elements as object)
          .flatMap(textsIn)
          .join(' '),
      ];
    if ((node.type === 'CallExpression' || node.type === 'NewExpression') && 'callee' in node) {
      const { name, callee } = calleeOf(node.callee);
      // The call before it in a chain is part of the callee.
      if (helpCalls.includes(name)) return textsIn(callee);
    }
  }
  return Object.values(node).flatMap(textsIn);
}

/** Returns the name of a called function or method, and the object of the method. */
function calleeOf(callee: unknown): { readonly name: string; readonly callee: unknown } {
  const { name, object, property } = callee as {
    readonly name?: string;
    readonly object?: unknown;
    readonly property?: { readonly name?: string };
  };
  return { name: name ?? property?.name ?? '', callee: object };
}
