-- Where the mirror of the CRM stands, the sync run that is under way, and what the CRM has reported.

-- One row.
create table public.crm_sync_state (
  only_row boolean primary key default true check (only_row),
  -- Host of the CRM (portal), user of the webhook, field codes, options, country and version of the mapping; never the webhook's
  -- secret. Null: not known yet. A run with another configuration is refused.
  configuration jsonb,
  -- Every change in the CRM up to here is in the mirror, except for deletions and links, which full runs find. The CRM's clock.
  watermark timestamptz,
  -- When the last run that found the mirror equal to the CRM began.
  last_success_at timestamptz,
  last_full_at timestamptz,
  -- The full run under way: when it began by the CRM's clock and by ours, the last contact that it has staged, and how many
  -- deletions somebody has confirmed for it.
  full_watermark timestamptz,
  full_begun_at timestamptz,
  full_cursor bigint,
  full_confirmed bigint,
  -- Deletions on hold: the full run that found too many contacts missing, and their number. Nothing was deleted.
  held_run bigint,
  held_deletions bigint,
  check ((held_run is null) = (held_deletions is null)),
  -- Contacts that the last full run kept as they were: the webhook's user may not read them any more, or the CRM did not return
  -- them, or not completely.
  denied_contacts bigint not null default 0,
  unread_contacts bigint not null default 0,
  -- Contacts that lacked phones or companies in the last full run although another of their fields told of some.
  contradictory_contacts bigint not null default 0,
  -- The categories of contacts that the last run has read: when there are more, every contact is read again. And the code with which
  -- the CRM refused to tell them.
  categories bigint[] not null default '{}',
  categories_refused_by text check (categories_refused_by ~ '^[A-Za-z0-9_.-]{1,64}$'),
  -- Where the bucket of requests stands, in milliseconds since the epoch: a restart is no new burst.
  bucket_arrival double precision not null default 0,
  -- What keeps it from working, and until when if that is known. A code from outside is a short word: it is stored, logged and
  -- printed.
  blocked_by text check (blocked_by ~ '^[A-Za-z0-9_.-]{1,64}$'),
  blocked_until timestamptz
);
insert into public.crm_sync_state default values;

-- What commands request of the synchroniser. One row, apart from the state, which is written before each request to the CRM.
create table public.crm_sync_requests (
  only_row boolean primary key default true check (only_row),
  -- A run. It counts for ten minutes.
  requested text check (requested in ('incremental', 'full')),
  requested_at timestamptz,
  -- The confirmation of deletions on hold. It counts for ten minutes: a full run that begins later ignores it.
  confirmed_run bigint,
  confirmed_deletions bigint,
  confirmed_at timestamptz
);
insert into public.crm_sync_requests default values;

-- With another CRM, or other fields of it, the same IDs name other contacts.
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

-- What a full run has read so far.
create table public.crm_sync_staging (
  bitrix_id bigint primary key,
  -- listed: the row is the contact. contradictory: so it is, but it lacks phones or companies of which another of its fields tells.
  -- unread: the CRM did not return it, or not completely, and it stays as it is. The others were not listed and then looked up: the
  -- CRM has deleted it, or denies access.
  state text not null check (state in ('listed', 'contradictory', 'unread', 'deleted', 'denied')),
  phone text,
  company_ids bigint[],
  name text,
  assigned_by_id bigint,
  trouble_contact boolean,
  perplexity_reason text
);

create table public.crm_sync_runs (
  id bigint generated always as identity primary key,
  kind text not null check (kind in ('full', 'incremental', 'events')),
  begun_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  outcome text check (outcome ~ '^[A-Za-z0-9_.-]{1,64}$'),
  -- When a command made the request that the run serves.
  requested_at timestamptz,
  -- How many contacts the CRM counts, if the run asked.
  total bigint,
  seen bigint not null default 0,
  created bigint not null default 0,
  changed bigint not null default 0,
  deleted bigint not null default 0,
  -- Contacts that the CRM did not return, or not completely: they stay as they are.
  unread bigint not null default 0,
  requests bigint not null default 0
);

-- Hints that a contact has changed, one row for each contact: the contact is read again.
create table public.crm_event_inbox (
  bitrix_id bigint primary key check (bitrix_id between 1 and 9007199254740991),
  received_at timestamptz not null default clock_timestamp(),
  -- How often the contact was requested in vain since the event came, and when it is requested again.
  attempts int not null default 0 check (attempts >= 0),
  retry_at timestamptz
);

-- Without a CRM nobody else deletes a company contact, so a person's request to erase one is served here. With a CRM the contact
-- has to be deleted there: the next full run would save it again.
-- Returns the number of deleted contacts, or null where a CRM is mirrored: nothing is deleted then.
create function public.erase_company_contacts(contacts bigint[]) returns int language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
  deleted int;
begin
  if exists (select from public.crm_sync_state where configuration is not null or last_success_at is not null) then return null; end if;
  delete from public.company_contacts where bitrix_id = any (contacts);
  get diagnostics deleted = row_count;
  return deleted;
end
$$;
