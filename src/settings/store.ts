import type { Setting } from '../core/setting.ts';
import { keys32, storeLocation, wholeNumber } from '../core/value.ts';

/** The store and the key that encrypts its secrets. */
export const storeSettings = {
  store: {
    variable: 'LEAT_STORE',
    parse: storeLocation,
    fallback: 'sqlite:./data/leat.db',
    doc: 'sqlite:<path>, without parameters of SQLite, sqlite::memory:, which loses everything at the end of the process, or postgres://…, also with several hosts; the data folder is the folder of the file; default: in ./data where that folder has it or is empty, else in the place of the platform',
    secret: 'user info',
  },
  storeConnections: {
    variable: 'LEAT_STORE_CONNECTIONS',
    parse: wholeNumber(8, 100),
    fallback: '13',
    doc: 'maximum PostgreSQL connections of one process',
  },
  secretKeys: {
    variable: 'LEAT_SECRET_KEY',
    parse: keys32,
    otherwise: 'generated',
    example: '$(openssl rand -base64 32)',
    doc: 'encrypts stored secrets; generated into the data folder with sqlite; two keys, new,former, to change it',
    secret: 'all',
  },
} as const satisfies Record<string, Setting>;
