-- `pg_restore --clean` into the same database leaves the server, the database and the timeline as they are, but not the versions:
-- those that were given out after the dump are given out a second time. It recreates the tables, so the OID of one is part of the
-- history too.

-- The last value that was stored stays comparable, so that an upgrade begins no new epoch.
update public.company_contacts_version
  set history = history || ' ' || to_regclass('public.company_contacts_version')::oid;

create or replace function public.database_history() returns text language sql volatile set search_path = pg_catalog, pg_temp as $$
  select concat_ws(
    ' ',
    (select system_identifier from pg_control_system()),
    (select oid from pg_database where datname = current_database()),
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    -- Looked up when it is executed: pg_restore creates the function before the table.
    to_regclass('public.company_contacts_version')::oid
  )
$$;
