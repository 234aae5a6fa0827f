import pg from 'pg';

/** The values of the columns; `undefined` is stored as null. */
export type CopyRow = readonly CopyValue[];
type CopyValue = string | number | null | undefined;

/**
 * Sends a COPY and its rows together, so that it is pipelined like any other statement: the server drops
 * rows of a statement that has failed (PostgreSQL manual, 54.2.6).
 *
 * @param text `copy … from stdin`, in the text format
 */
export function copyIn(
  client: pg.ClientBase,
  text: string,
  rows: readonly CopyRow[],
): Promise<pg.QueryResult> {
  return new Promise((resolve, reject) => {
    const ended: Callback = (error, result) => {
      if (error) reject(error);
      else resolve(result);
    };
    client.query(new CopyIn(text, textOf(rows), ended));
  });
}

type Callback = (error: Error | undefined, result: pg.QueryResult) => void;

/** What the type definitions lack. */
interface CopyConnection extends pg.Connection {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/** A query of the driver may send what it likes. */
class CopyIn extends pg.Query {
  constructor(text: string, rows: string, callback: Callback) {
    super(text, undefined, callback as never);
    this.submit = (connection) => {
      connection.query(text);
      (connection as CopyConnection).sendCopyFromChunk(Buffer.from(rows));
      (connection as CopyConnection).endCopyFrom();
    };
  }

  /** The driver calls it when the server wants the rows, which it has already. */
  handleCopyInResponse(): void {}
}

function textOf(rows: readonly CopyRow[]): string {
  let text = '';
  for (const row of rows) {
    for (let column = 0; column < row.length; column += 1) {
      text += column === 0 ? valueText(row[column]) : `\t${valueText(row[column])}`;
    }
    text += '\n';
  }
  return text;
}

function valueText(value: CopyValue): string {
  if (typeof value === 'string') return value.replaceAll(/[\\\t\n\r]/g, escaped);
  return value === null || value === undefined ? '\\N' : String(value);
}

const escapes: Readonly<Record<string, string>> = { '\t': 't', '\n': 'n', '\r': 'r', '\\': '\\' };

function escaped(character: string): string {
  return `\\${escapes[character]}`;
}
