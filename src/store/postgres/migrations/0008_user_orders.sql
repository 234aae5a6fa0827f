-- Pages of users in the orders that may be asked for, from the index alone. Users of one value follow
-- by id, so that ties do not have to be sorted. `users_created` and the key have that already.

create index users_updated on users (tenant, updated_at, id);
create index users_username on users (tenant, username nulls first, id);
create index users_email_id on users (tenant, email, id);
drop index users_email;
