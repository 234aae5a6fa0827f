/** What a text searches users by; the API finds whole ids and whole addresses. */
export type UserSearch =
  | { readonly kind: 'all' }
  | { readonly kind: 'id' | 'email'; readonly path: string }
  | { readonly kind: 'neither' };

/** Returns the request that a text needs. */
export function userSearch(text: string | undefined): UserSearch {
  if (text === undefined) return { kind: 'all' };
  if (/^[^|@]+\|./.test(text)) return { kind: 'id', path: `/users/${encodeURIComponent(text)}` };
  if (text.includes('@')) {
    return { kind: 'email', path: `/users-by-email?email=${encodeURIComponent(text)}` };
  }
  return { kind: 'neither' };
}

/** Returns the address of the events about a user. */
export function eventsOfUser(events: string, userId: string): string {
  const filter = JSON.stringify({ 'data.object.user_id': userId });
  return `${events}?${new URLSearchParams({ filter })}`;
}
