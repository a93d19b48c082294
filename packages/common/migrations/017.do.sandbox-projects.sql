-- A project to try with: it sees invented contacts, and never one of the table. It is so from the beginning and for good.
alter table projects add column sandbox boolean not null default false;
