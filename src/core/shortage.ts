/** What a node, not a receiver, can be short of. */
export const resources = ['descriptors', 'ports', 'memory', 'threads', 'name servers'] as const;

export type Resource = (typeof resources)[number];
