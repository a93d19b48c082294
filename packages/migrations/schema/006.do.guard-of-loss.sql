-- One guard of loss: beside the deletions on hold, how many contacts would lose their phone or their companies. Both are confirmed as
-- one number. It replaces contacts that contradict themselves, which are believed as the CRM returns them.
alter table public.crm_sync_requests rename confirmed_deletions to confirmed_contacts;
alter table public.crm_sync_state
  add held_emptied bigint,
  -- Somebody has confirmed another configuration, and no full run with it is done: its empty phones and companies are no loss.
  add remapped boolean not null default false;

-- What a run has refused to believe is held now, until somebody confirms it or the next full run finds it back.
update public.crm_sync_state
set held_emptied = contradictory_contacts, unread_contacts = unread_contacts - contradictory_contacts,
    held_run = coalesce(held_run, (select max(id) from public.crm_sync_runs where kind = 'full'), 0),
    held_deletions = coalesce(held_deletions, 0)
where contradictory_contacts > 20 and unread_contacts >= contradictory_contacts;
update public.crm_sync_state set held_emptied = 0 where held_run is not null and held_emptied is null;

alter table public.crm_sync_state
  drop contradictory_contacts,
  -- Each process begins with an empty bucket of requests instead.
  drop bucket_arrival,
  add check ((held_run is null) = (held_emptied is null));

-- A run in progress goes on with what it has read.
update public.crm_sync_staging set state = 'listed' where state = 'contradictory';
alter table public.crm_sync_staging
  drop constraint crm_sync_staging_state_check,
  add check (state in ('listed', 'unread', 'deleted', 'denied'));
