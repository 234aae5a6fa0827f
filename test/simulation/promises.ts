/** What Leat promises; a history is a search for a step that breaks one of these. */
export const promises = {
  lost: 'an acknowledged event is never lost',
  passed: 'a cursor passes no event that is neither settled nor in a row',
  disabled: 'a disabled or deleted stream is sent nothing but redeliveries that were asked for',
  owner: 'only the owner of a stream moves its cursor, records results and begins attempts',
  lease: 'no attempt begins after the lease of its node has ended',
  counters:
    'the counters of a stream are those of a plain count, and disable it exactly at a limit',
  repeated: 'a command that is repeated after its answer was lost changes nothing more',
  twice: 'no more events are sent twice than the stated bound',
  synced: 'a settlement is on the disk a second after it was recorded',
  bounds: 'attempts, results and bodies in memory, and waiting retries, stay within their bounds',
  secrets: 'no secret gets into a history or a report',
  tenant: 'an event is sent to streams of its own tenant alone',
  destination: 'an attempt goes to the destination that the stream has, with an event it wants',
  truth: 'what is recorded as delivered was accepted by a receiver',
  schedule:
    'an attempt counts as what the receiver answered, and a cycle has the attempts and the waits of its schedule',
  recorded: 'every attempt is in the history, and every end of a delivery in the statistics',
  asked: 'a stream begins, resumes and is sent again what was asked for, and the answer says so',
  late: 'what can be sent arrives within the stated time, in whatever state its node has been',
  rest: 'once faults stop, everything arrives and comes to rest',
  explained: 'every row that is left is explained by its history',
  time: 'stored instants go by the clock of the store, which never goes back and follows no wrong step',
  log: 'the log has no gaps, and a repeated id changes nothing',
  unexpected: 'nothing happens that the program calls unexpected',
} as const;

export type PromiseName = keyof typeof promises;

/** A promise that was broken, and how. */
export interface Broken {
  readonly promise: PromiseName;
  readonly atMs: number;
  readonly how: string;
}
