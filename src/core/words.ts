export interface Word {
  readonly word: string;
  readonly meaning: string;
}

/**
 * The words that people meet in the API, the command line and the console with a meaning of their own in Leat.
 * The API reference (`/docs`), the page of words of the console and docs/glossary.md show them.
 */
export const words: readonly Word[] = [
  {
    word: 'event stream',
    meaning:
      'sends the events of some types to one webhook, in its own time and with its own retries',
  },
  {
    word: 'event type',
    meaning:
      'the name that an event is subscribed by; the catalogue has 25 of them, and a publisher may use its own',
  },
  {
    word: 'filter',
    meaning: 'a condition on an event; a stream that has one receives only the events that match',
  },
  {
    word: 'order',
    meaning:
      'a stream with an order sends the events that share a value, such as one user, one after the other; an event that failed blocks those after it',
  },
  { word: 'attempt', meaning: 'one request to the receiver for one event' },
  {
    word: 'delivery',
    meaning: 'one event for one stream, with all attempts until it succeeds or fails',
  },
  {
    word: 'failure',
    meaning:
      'a delivery whose attempts ended without success; it stays open until it is redelivered or dismissed',
  },
  {
    word: 'redeliver',
    meaning: 'sends an open failure again, with all retries of the stream',
  },
  {
    word: 'retry now',
    meaning: 'sends at once what is waiting for its next attempt; it has not failed yet',
  },
  {
    word: 'replay',
    meaning:
      'sends the events of a period to one stream again, also those that were delivered or that are from before the stream',
  },
  { word: 'dismiss', meaning: 'closes open failures without sending them' },
  {
    word: 'pause',
    meaning:
      'a paused stream keeps its events until it is resumed; redeliveries and tests are sent',
  },
  {
    word: 'disable',
    meaning:
      'a disabled stream sends nothing but redeliveries and tests; one that fails too often is disabled automatically',
  },
  {
    word: 'held, latest',
    meaning:
      'the two ways to enable a stream again: held delivers the events of the time in which it was disabled, latest skips them',
  },
  {
    word: 'outage',
    meaning:
      'the receiver of a stream with a retry schedule does not respond: new events wait, and one trial a minute finds out when it is back',
  },
  {
    word: 'lag',
    meaning: 'the age of the oldest event that a stream has not delivered yet, and how many wait',
  },
  {
    word: 'inspector',
    meaning: 'a receiver within Leat, to see the requests of a stream before there is a webhook',
  },
  {
    word: 'offset',
    meaning: 'the position of an event in the log; a pull goes on after the last one it received',
  },
  { word: 'pull', meaning: 'reads events over one open connection, as server-sent events' },
  {
    word: 'client',
    meaning: 'a program that requests tokens with an id and a secret or a key',
  },
  {
    word: 'global client',
    meaning:
      'a client that may use the management API, within the scopes of its grant; others get tokens for other APIs only',
  },
  { word: 'grant', meaning: 'the scopes that a client may request for one API' },
  {
    word: 'carried field',
    meaning:
      'a field of another identity service that is stored and returned, so that its tools work, and has no effect',
  },
  {
    word: 'tenant',
    meaning: 'a separate log with streams, users, clients, keys and a domain of its own',
  },
];
