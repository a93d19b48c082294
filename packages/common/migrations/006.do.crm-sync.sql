-- The synchroniser's own tables: where it stands, the pass that is under way, and what the CRM has told of changes.

create table crm_sync_state (
  only_row boolean primary key default true check (only_row),
  -- Every change in the CRM up to here is in the mirror, but for deletions and links, which full passes find. The CRM's clock.
  watermark timestamptz,
  last_success_at timestamptz,
  last_full_at timestamptz,
  -- The full pass under way: when it began by the CRM's clock and by ours, and the last contact that it has staged.
  full_watermark timestamptz,
  full_begun_at timestamptz,
  full_cursor bigint,
  -- Where the bucket of requests stands, milliseconds since the epoch: a restart is no new burst.
  bucket_arrival double precision not null default 0,
  -- What keeps it from working, and until when where that is known.
  blocked_by text,
  blocked_until timestamptz,
  -- What somebody has to look at: it works on, but holds something back.
  alarm text,
  alarm_at timestamptz
);
insert into crm_sync_state default values;

create table crm_sync_staging (
  bitrix_id bigint primary key,
  phone text,
  company_ids bigint[],
  -- False: the CRM did not tell the links, and those that are stored stay.
  has_company_ids boolean not null,
  name text,
  assigned_by_id bigint,
  trouble_contact boolean not null,
  perplexity_reason text
);

create table crm_sync_runs (
  id bigint generated always as identity primary key,
  kind text not null check (kind in ('full', 'incremental', 'events', 'contact')),
  begun_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  outcome text,
  seen bigint not null default 0,
  created bigint not null default 0,
  changed bigint not null default 0,
  deleted bigint not null default 0,
  requests bigint not null default 0
);

-- Hints that a contact has changed, one row a contact: the contact is read again, whatever the event said.
create table crm_event_inbox (
  bitrix_id bigint primary key check (bitrix_id between 1 and 9007199254740991),
  event text not null,
  received_at timestamptz not null default clock_timestamp()
);

-- Writes what differs, and only that. Contacts whose links are unknown keep those that they have.
create function save_crm_contacts(given crm_sync_staging[], out created int, out changed int) language sql as $$
  with contact as (
    select c.bitrix_id, c.phone,
           case when c.has_company_ids then c.company_ids else stored.company_ids end as company_ids,
           c.name, c.assigned_by_id, c.trouble_contact, c.perplexity_reason
    from unnest(given) c
    left join company_contacts stored using (bitrix_id)
    where stored.bitrix_id is null
       or (c.phone, case when c.has_company_ids then c.company_ids else stored.company_ids end, c.name, c.assigned_by_id,
           c.trouble_contact, c.perplexity_reason)
          is distinct from
          (stored.phone, stored.company_ids, stored.name, stored.assigned_by_id, stored.trouble_contact, stored.perplexity_reason)
  ), saved as (
    insert into company_contacts as stored
      (bitrix_id, phone, company_ids, name, assigned_by_id, trouble_contact, perplexity_reason)
    select bitrix_id, phone, company_ids, name, assigned_by_id, trouble_contact, perplexity_reason from contact order by bitrix_id
    on conflict (bitrix_id) do update set
      phone = excluded.phone, company_ids = excluded.company_ids, name = excluded.name,
      assigned_by_id = excluded.assigned_by_id, trouble_contact = excluded.trouble_contact,
      perplexity_reason = excluded.perplexity_reason, updated_at = now()
    returning xmax = 0 as is_new
  )
  select count(*) filter (where is_new)::int, count(*) filter (where not is_new)::int from saved
$$;

-- Makes a full pass visible, in the one transaction of its call: what it has staged, and the deletions that were confirmed.
create function finish_crm_full_pass(deleted_ids bigint[], out created int, out changed int, out deleted int) language plpgsql as $$
begin
  select s.created, s.changed into created, changed
  from save_crm_contacts(array(select staged from crm_sync_staging staged)) s;
  delete from company_contacts where bitrix_id = any (deleted_ids);
  get diagnostics deleted = row_count;
  update crm_sync_state set
    watermark = full_watermark, last_success_at = clock_timestamp(), last_full_at = clock_timestamp(),
    full_watermark = null, full_begun_at = null, full_cursor = null, blocked_by = null, blocked_until = null;
  truncate crm_sync_staging;
end
$$;

do $$
begin
  if not exists (select from pg_roles where rolname = 'company_contacts_sync') then
    begin
      create role company_contacts_sync nologin;
    exception when duplicate_object or unique_violation then null;
    end;
  end if;
end
$$;

grant usage on schema public to company_contacts_sync;
grant select, insert, update, delete on company_contacts to company_contacts_sync;
grant select, insert, update, delete on crm_sync_staging, crm_event_inbox to company_contacts_sync;
grant select, insert, update on crm_sync_runs to company_contacts_sync;
grant select, update on crm_sync_state to company_contacts_sync;
grant truncate on crm_sync_staging to company_contacts_sync;
-- For the age of the data, in the list's headers and in the metrics.
grant select on crm_sync_state to company_contacts_service;
-- "contacts sync" does the same work by hand.
grant company_contacts_sync to contacts_operator;
