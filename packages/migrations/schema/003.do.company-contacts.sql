-- Contacts of companies, mirrored from the CRM, and what has changed since when.

create table public.company_contacts (
  id bigint generated always as identity primary key check (id <= 9007199254740991),
  bitrix_id bigint not null unique check (bitrix_id between 1 and 9007199254740991),
  -- E.164.
  phone text check (phone ~ '^\+[1-9][0-9]{1,14}$'),
  -- Linked companies in the CRM's order, primary first; null when there are none.
  company_ids bigint[] check (
    array_ndims(company_ids) = 1 and cardinality(company_ids) > 0
    and 0 < all (company_ids) and array_position(company_ids, null) is null
  ),
  name text check (char_length(name) <= 1000),
  assigned_by_id bigint check (assigned_by_id between 1 and 9007199254740991),
  trouble_contact boolean not null default false,
  perplexity_reason text check (char_length(perplexity_reason) <= 10000),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index company_contacts_by_company on public.company_contacts using gin (company_ids);

-- One row. Every writer takes its version from it and holds the row until it commits. So versions become visible in their order,
-- and a reader of everything after a version misses nothing, however transactions overlap.
create table public.company_contacts_version (
  only_row boolean primary key default true check (only_row),
  -- Versions can be compared only within one epoch.
  epoch uuid not null default gen_random_uuid(),
  -- The last one that was taken.
  version bigint not null,
  -- Tombstones up to this version may be gone.
  pruned_version bigint not null default 0,
  -- That of the database in which the version was taken: database_history().
  history text not null
);

-- A row for each contact with the version of its last change. That of a deleted contact is its tombstone.
create table public.company_contacts_changes (
  id bigint primary key,
  version bigint not null,
  -- Of a deleted contact only.
  bitrix_id bigint,
  deleted_at timestamptz,
  check ((bitrix_id is null) = (deleted_at is null))
);
create index company_contacts_changes_by_version on public.company_contacts_changes (version, id);
create index company_contacts_tombstones on public.company_contacts_changes (deleted_at) where deleted_at is not null;

-- The server, the database, the timeline and the table. A server that was copied, restored to a point in time, or promoted may
-- lack versions that were given out before, and so may tables that pg_restore has created again. Versions that it gives out itself
-- must not be taken for those.
create function public.database_history() returns text language sql volatile set search_path = pg_catalog, pg_temp as $$
  select concat_ws(
    ' ',
    (select system_identifier from pg_control_system()),
    (select oid from pg_database where datname = current_database()),
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    -- Looked up when it is executed: pg_restore creates the function before the table.
    to_regclass('public.company_contacts_version')::oid
  )
$$;

insert into public.company_contacts_version (version, history) values (1, public.database_history());

-- Two writers wait for each other here, before either has locked a contact, so they can't deadlock over contacts.
create function public.lock_company_contacts_version() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from public.company_contacts_version for no key update;
  return null;
end
$$;

-- Records what a statement has changed. A statement that changed no row takes no version. A tombstone is written only of a contact
-- that no longer exists: one statement can delete a contact and insert it again, and the triggers of its parts fire in any order.
create function public.record_company_contacts_changes() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
  nothing constant text := '(select * from public.company_contacts where false)';
  written constant text := case when tg_op in ('INSERT', 'UPDATE') then 'written' else nothing end;
  gone constant text := case tg_op when 'INSERT' then nothing when 'TRUNCATE' then 'public.company_contacts' else 'gone' end;
  -- TRUNCATE alone is recorded before it happens.
  stored constant text := case tg_op when 'TRUNCATE' then nothing else 'public.company_contacts' end;
  next_version bigint;
  changes bigint;
begin
  select version + 1 into next_version from public.company_contacts_version for no key update;
  -- Planned for each statement: after one that changed a single contact, another may change a million.
  execute format(
    'insert into public.company_contacts_changes (id, version, bitrix_id, deleted_at)
     select id, $1,
            case when s.bitrix_id is null then coalesce(w.bitrix_id, g.bitrix_id) end,
            case when s.bitrix_id is null then clock_timestamp() end
     from %s w full join %s g using (id) left join %s s using (id)
     where w is distinct from g
     on conflict (id) do update set
       version = excluded.version, bitrix_id = excluded.bitrix_id, deleted_at = excluded.deleted_at',
    written, gone, stored
  ) using next_version;
  get diagnostics changes = row_count;
  if changes > 0 then
    update public.company_contacts_version set
      version = next_version, history = public.database_history(),
      epoch = case when history <> public.database_history() then gen_random_uuid() else epoch end;
  end if;
  return null;
end
$$;

create trigger company_contacts_before_writing before insert or update or delete on public.company_contacts
  for each statement execute function public.lock_company_contacts_version();
create trigger company_contacts_inserted after insert on public.company_contacts
  referencing new table as written for each statement execute function public.record_company_contacts_changes();
create trigger company_contacts_updated after update on public.company_contacts
  referencing old table as gone new table as written
  for each statement execute function public.record_company_contacts_changes();
create trigger company_contacts_deleted after delete on public.company_contacts
  referencing old table as gone for each statement execute function public.record_company_contacts_changes();
-- Before it: what is gone can be read for the last time.
create trigger company_contacts_truncated before truncate on public.company_contacts
  for each statement execute function public.record_company_contacts_changes();

-- Cursors from before are refused from now on, and clients that keep a copy begin again.
create function public.begin_company_contacts_epoch() returns void language sql volatile
set search_path = pg_catalog, pg_temp as $$
  update public.company_contacts_version set epoch = gen_random_uuid(), version = version + 1;
$$;

-- A cursor works for 30 days. A reader that was away for 30 days has another 30 for its pages: the cursor of a page is a position
-- among the changes, and these may be as old as the cursor before the first page. Two days more, because a deletion is recorded
-- with the time of its statement, and may have been committed later.
create function public.prune_company_contacts_tombstones() returns void language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
  oldest constant timestamptz := clock_timestamp() - interval '62 days';
  pruned bigint;
begin
  if not exists (select from public.company_contacts_changes where deleted_at < oldest) then
    return;
  end if;
  perform from public.company_contacts_version for no key update;
  with old as (
    delete from public.company_contacts_changes where deleted_at < oldest returning version
  )
  select max(version) into pruned from old;
  update public.company_contacts_version set pruned_version = greatest(pruned_version, pruned);
end
$$;
