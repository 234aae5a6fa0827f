/** The predefined event types; a product can publish others. */
export const catalogue: readonly string[] = [
  ...family('user', 'created', 'updated', 'deleted'),
  ...family('organization', 'created', 'updated', 'deleted'),
  ...family('organization.connection', 'added', 'updated', 'removed'),
  ...family('organization.member', 'added', 'deleted', 'role.assigned', 'role.deleted'),
  ...family('organization.group', 'role.assigned', 'role.deleted'),
  ...family('group', 'created', 'updated', 'deleted'),
  ...family('group.member', 'added', 'deleted'),
  ...family('group.role', 'assigned', 'deleted'),
  ...family('connection', 'created', 'updated', 'deleted'),
];

function family(noun: string, ...events: readonly string[]): string[] {
  return events.map((event) => `${noun}.${event}`);
}
