import { perDialect } from '../commands/dialect.ts';

/** Streams `s` that need an owner: enabled ones, and disabled ones with rows to send, except rows of a replay. */
export const needsOwner = perDialect({
  sqlite: needsOwnerBy('indexed by deliveries_due'),
  postgres: needsOwnerBy(''),
});

function needsOwnerBy(index: string): string {
  return `(s.status = 'enabled' or exists (
    select 1 from deliveries d ${index}
    where d.tenant = s.tenant and d.stream = s.id and d.due_at is not null
      and d.kind <> 'replay'))`;
}
