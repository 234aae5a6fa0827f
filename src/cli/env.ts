/** Environment variables of the commands that work over HTTP. */
export interface CliEnv {
  /** LEAT_URL, LEAT_CLIENT_ID and LEAT_CLIENT_SECRET: together a session without a login. */
  readonly url?: string;
  readonly clientId?: string;
  readonly clientSecret?: string;
  /** LEAT_CA: the default of `--ca`. */
  readonly caFile?: string;
  /** XDG_CONFIG_HOME */
  readonly configHome?: string;
  /** PATH */
  readonly path?: string;
  /** NO_COLOR */
  readonly noColor: boolean;
}

/** Returns the variables that are set and that count more than a stored login. */
export function variablesOverLogin({ url, clientId, clientSecret, caFile }: CliEnv): string[] {
  const texts = {
    LEAT_URL: url,
    LEAT_CLIENT_ID: clientId,
    LEAT_CLIENT_SECRET: clientSecret,
    LEAT_CA: caFile,
  };
  return Object.entries(texts).flatMap(([name, text]) => (text === undefined ? [] : [name]));
}
