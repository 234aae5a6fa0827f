import { Type } from 'typebox';

/** Response of the connection that reports changes. */
export const changesBody = Type.String({
  description:
    'Server-sent events `changed`, at most one a second. The data is the JSON object {"streams", "all", "overview"}: the event streams whose configuration, health or failures to read again, at most 100; `all` true, and no streams, when any of them may have changed; `overview` true when what shows the whole tenant is to be read again. The first one says that everything is.',
});
