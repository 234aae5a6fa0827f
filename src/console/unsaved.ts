import type { StreamShown } from '../schemas/streams.ts';
import type { StreamDraft } from './stream-draft.ts';

/** Settings of a stream that somebody has changed and not saved. */
export interface Unsaved {
  /** The stream as it was when the changes began. */
  readonly base: StreamShown;
  readonly draft: StreamDraft;
}

/**
 * In the memory of the tab alone, as they may hold secrets. The form finds them again after a visit to
 * another page, and after another sign-in of the same person.
 */
const kept = new Map<string, Unsaved>();
let owner = '';

export function unsavedOf(streamId: string): Unsaved | undefined {
  return kept.get(streamId);
}

export function hasUnsaved(): boolean {
  return kept.size > 0;
}

/** Keeps the changes of a form, or forgets them. */
export function keepUnsaved(streamId: string, changes: Unsaved | undefined): void {
  if (changes === undefined) kept.delete(streamId);
  else kept.set(streamId, changes);
  if (hasUnsaved()) addEventListener('beforeunload', ask);
  else removeEventListener('beforeunload', ask);
}

/** Called at each sign-in, with who it is, and without when somebody signs out: changes are not for the next person. */
export function unsavedBelongTo(person = ''): void {
  if (person !== owner) for (const id of kept.keys()) keepUnsaved(id, undefined);
  owner = person;
}

/** The browser asks before a tab with changes is closed or leads elsewhere. */
function ask(event: Event): void {
  event.preventDefault();
}
