-- oldest that may run: 0014

-- Since when the store refuses results of a stream, and the code of its error; null once one is recorded.
alter table runs add column refused_at integer;
alter table runs add column refused_code text;
