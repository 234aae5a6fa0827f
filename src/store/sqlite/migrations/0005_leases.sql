-- Leases of nodes, claims that can be repeated, and changes that owners have not seen.

-- By the monotonic clock of the process that has the file; void when it is opened, as every node was
-- part of a process that is gone.
alter table nodes add column lease_until real not null default 0;
alter table nodes add column last_claim integer not null default 0; -- of this incarnation

-- Which claim of its owner took the stream.
alter table runs add column claim integer not null default 0;

-- 1 while the owner works by the stream as it was before a change.
alter table runs add column unseen integer not null default 0;

create index runs_unseen on runs (owner) where unseen = 1;
