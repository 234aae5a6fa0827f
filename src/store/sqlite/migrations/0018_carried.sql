-- oldest that may run: 0014
-- Fields of clients, APIs, grants and roles that are stored and returned without effect: a JSON object.
alter table clients add column carried text;
alter table apis add column carried text;
alter table grants add column carried text;
alter table roles add column carried text;
