-- What has changed since when, so that a partner can keep a copy of the company contacts by their changes alone.
--
-- Every writer takes its version from one row, which it holds until it commits. So versions become visible in their order, and
-- a reader of everything after a version misses nothing, however transactions overlap.

create table public.company_contacts_version (
  only_row boolean primary key default true check (only_row),
  -- Versions of one epoch can be compared with each other, and with no others.
  epoch uuid not null default gen_random_uuid(),
  -- The last one that was taken.
  version bigint not null,
  -- When the statement that took it was executed.
  changed_at timestamptz not null,
  -- Tombstones up to this version may be gone.
  pruned_version bigint not null default 0,
  -- The history of the database in which it was taken; null: none was taken yet.
  history text
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

-- The server, the database and the timeline. One that was copied, restored to a point in time, or taken over by a standby may
-- lack versions that were given out before: those that it takes itself must not be mistaken for them.
create function public.database_history() returns text language sql volatile set search_path = pg_catalog, pg_temp as $$
  select concat_ws(
    ' ',
    (select system_identifier from pg_control_system()),
    (select oid from pg_database where datname = current_database()),
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
  )
$$;

-- Two writers wait for each other here, before either has locked a contact, so they can't deadlock over contacts.
create function public.lock_company_contacts_version() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from public.company_contacts_version for no key update;
  return null;
end
$$;

-- Records what a statement has changed, and has it announced at the commit. A statement that changed none of the fields takes
-- no version.
create function public.record_company_contacts_changes() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
  nothing constant text := '(select * from public.company_contacts where false)';
  written constant text := case when tg_op in ('INSERT', 'UPDATE') then 'written' else nothing end;
  gone constant text := case tg_op when 'INSERT' then nothing when 'TRUNCATE' then 'public.company_contacts' else 'gone' end;
  next_version bigint;
  changes bigint;
begin
  select version + 1 into next_version from public.company_contacts_version for no key update;
  -- Planned anew for each statement: after one that changed a single contact, another may change a million.
  execute format(
    'insert into public.company_contacts_changes (id, version, bitrix_id, deleted_at)
     select id, $1, case when w.bitrix_id is null then g.bitrix_id end, case when w.bitrix_id is null then clock_timestamp() end
     from %s w full join %s g using (id)
     where (w.bitrix_id, w.phone, w.company_ids, w.name, w.assigned_by_id, w.trouble_contact, w.perplexity_reason)
           is distinct from
           (g.bitrix_id, g.phone, g.company_ids, g.name, g.assigned_by_id, g.trouble_contact, g.perplexity_reason)
     on conflict (id) do update set
       version = excluded.version, bitrix_id = excluded.bitrix_id, deleted_at = excluded.deleted_at',
    written, gone
  ) using next_version;
  get diagnostics changes = row_count;
  if changes > 0 then
    update public.company_contacts_version set
      version = next_version, changed_at = clock_timestamp(), history = public.database_history(),
      epoch = case when history is distinct from public.database_history() and history is not null
                   then gen_random_uuid() else epoch end;
    perform pg_notify('company_contacts_changed', '');
  end if;
  return null;
end
$$;

create trigger company_contacts_before_writing before insert or update or delete on public.company_contacts
  for each statement execute function public.lock_company_contacts_version();

drop trigger company_contacts_inserted on public.company_contacts;
drop trigger company_contacts_updated on public.company_contacts;
drop trigger company_contacts_deleted on public.company_contacts;
drop trigger company_contacts_truncated on public.company_contacts;
drop function public.notify_company_contacts_changed();
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

-- Nobody else writes while the triggers are made, and until the end of this migration.
insert into public.company_contacts_changes (id, version) select id, 1 from public.company_contacts;
insert into public.company_contacts_version (version, changed_at)
  select 1, coalesce(max(updated_at), now()) from public.company_contacts;
create index company_contacts_changes_by_version on public.company_contacts_changes (version, id);
create index company_contacts_tombstones on public.company_contacts_changes (deleted_at) where deleted_at is not null;

-- Cursors of before are refused from now on, and whoever keeps a copy begins again.
create function public.begin_company_contacts_epoch() returns void language sql volatile
set search_path = pg_catalog, pg_temp as $$
  update public.company_contacts_version set epoch = gen_random_uuid(), version = version + 1, changed_at = clock_timestamp();
  select pg_notify('company_contacts_changed', '');
$$;

-- With another portal, or other fields of it, the same IDs name other contacts.
create function public.begin_epoch_of_configuration() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform public.begin_company_contacts_epoch();
  return null;
end
$$;
create trigger crm_configuration_changed after update of configuration on public.crm_sync_state for each row
  when (old.configuration - '{webhook_user,mapping_version}'::text[] is distinct from new.configuration - '{webhook_user,mapping_version}'::text[]
        and old.configuration is not null)
  execute function public.begin_epoch_of_configuration();

-- A cursor is good for 30 days. A day more: a deletion is recorded with the time of its statement, and may have been
-- committed later.
create function public.prune_company_contacts_tombstones() returns void language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
  pruned bigint;
begin
  if not exists (select from public.company_contacts_changes where deleted_at < clock_timestamp() - interval '31 days') then
    return;
  end if;
  perform from public.company_contacts_version for no key update;
  with old as (
    delete from public.company_contacts_changes where deleted_at < clock_timestamp() - interval '31 days' returning version
  )
  select max(version) into pruned from old;
  update public.company_contacts_version set pruned_version = greatest(pruned_version, pruned);
end
$$;

revoke all on function
  public.lock_company_contacts_version(), public.record_company_contacts_changes(), public.begin_company_contacts_epoch(),
  public.begin_epoch_of_configuration(), public.prune_company_contacts_tombstones(), public.database_history()
from public;

grant select on public.company_contacts_version, public.company_contacts_changes to company_contacts_service;
grant execute on function public.prune_company_contacts_tombstones() to company_contacts_sync;
