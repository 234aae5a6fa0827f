import { shellWord } from './shell-word.ts';

/** The options with which a command reaches its installation. */
export interface InstallationOptions {
  readonly profile?: string | undefined;
  readonly ca?: string | undefined;
  /** The words that start the program, where that is not `leat`. */
  readonly program?: readonly string[] | undefined;
}

/**
 * Tag of a template that builds a command for a user to copy: the program in front, at the end the options
 * that reach the same installation. The words of the template stay as they are, also `<placeholders>`;
 * each value becomes one quoted word, and an array as many as it has.
 */
export type LeatCommand = (
  words: TemplateStringsArray,
  ...values: readonly (string | readonly string[])[]
) => string;

/** Returns the tag for commands that reach the installation of these options. */
export function leatCommand({ profile, ca, program = ['leat'] }: InstallationOptions): LeatCommand {
  const options = [
    ...(profile === undefined ? [] : ['--profile', profile]),
    ...(ca === undefined ? [] : ['--ca', ca]),
  ].map(shellWord);
  return (words, ...values) => {
    const given = words.flatMap((text, index) => [
      ...text.split(' ').filter((word) => word !== ''),
      ...[values[index] ?? []].flat().map(shellWord),
    ]);
    return [...program.map(shellWord), ...given, ...options].join(' ');
  };
}
