/** The guarantees of Leat; each history is checked for a violation of one of them. */
export const guarantees = {
  lost: 'an acknowledged event is never lost',
  cursor: 'a cursor passes no event that is neither settled nor in a row',
  disabled: 'a disabled or deleted stream is sent redeliveries only, a paused one tests, too',
  owner: 'only the owner of a stream moves its cursor, records results and begins attempts',
  lease: 'no attempt begins after the lease of its node has ended',
  counters: 'the counters of a stream are those of the model, and disable it exactly at a limit',
  repeated: 'a command that is repeated after its result was lost changes nothing more',
  duplicates: 'no more events are sent twice than the stated bound',
  synced: 'a settlement is on the disk a second after it was recorded',
  bounds: 'attempts, results and bodies in memory, and waiting retries, stay within their bounds',
  secrets: 'no secret is stored in the history or reported',
  tenant: 'an event is sent to streams of its own tenant alone',
  destination: 'an attempt goes to the destination that the stream has, with an event it wants',
  accepted: 'what is recorded as delivered was accepted by a receiver',
  order:
    'an event of a key begins when all before it are delivered or failed, and is not repeated later',
  schedule:
    'an attempt is recorded with the response of its receiver, and a cycle has the attempts and delays of its schedule',
  recorded: 'every attempt is in the history, and every end of a delivery in the statistics',
  known: 'what became of an event is as the history of the model says, at every moment',
  requested: 'a stream begins, resumes and redelivers as requested, and the result says so',
  late: 'an event that can be sent arrives within the stated time',
  removed:
    'nothing of a removed tenant is sent once its owner knows it, and no row of it is left in the end',
  idle: 'once faults stop, everything arrives and every node becomes idle',
  explained: 'every row that is left is explained by its history',
  time: 'stored instants use the clock of the store, which never goes back and follows no wrong step',
  log: 'the log has no gaps, and a repeated id changes nothing',
  ends: 'every step of a node ends',
  unexpected: 'nothing happens that the program calls unexpected',
} as const;

export type GuaranteeName = keyof typeof guarantees;

/** A guarantee that was violated, and how. */
export interface Violation {
  readonly guarantee: GuaranteeName;
  readonly atMs: number;
  readonly how: string;
}
