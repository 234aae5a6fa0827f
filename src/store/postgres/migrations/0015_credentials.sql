-- oldest that may run: 0014
-- Rises when the secret of a client is replaced or one of its keys removed; a token with another
-- version is no longer accepted.
alter table clients add column credentials_version bigint not null default 1;
