import type { EntryShown } from '../schemas/audit-log.ts';
import { pageOf } from './jump-target.ts';
import { links } from './links.ts';
import { doerOf } from './log-words.ts';
import { Allowed } from './parts/action.tsx';
import { Id } from './parts/copy.tsx';

/** Shows who did what an entry is about; a client leads to its page. */
export function Doer({ entry }: { readonly entry: EntryShown }) {
  const { name, what, clientId } = doerOf(entry);
  return (
    <span class="stacked">
      {clientId === undefined ? (
        <span class="cell-text">{name}</span>
      ) : (
        <Allowed scope="read:clients" otherwise={<span class="cell-text">{name}</span>}>
          <a class="cell-text" href={links.client(clientId)}>
            {name}
          </a>
        </Allowed>
      )}
      {what !== undefined && <span class="meta">{what}</span>}
    </span>
  );
}

/** Shows the id of a target, which leads to its page where the id says what it is of. */
export function Target({ id }: { readonly id: string }) {
  return <Id value={id} what={`id ${id}`} href={pageOf(id)} />;
}
