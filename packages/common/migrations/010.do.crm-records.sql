-- What the CRM says of single contacts: what it did not tell, what was looked up, and events that have to be tried again.

-- Codes come from outside, and are stored, logged and printed: a portal can't put a text of its own there.
update crm_sync_runs set outcome = 'unknown_code' where outcome !~ '^[A-Za-z0-9_.-]{1,64}$';
update crm_sync_state set blocked_by = 'unknown_code' where blocked_by !~ '^[A-Za-z0-9_.-]{1,64}$';
alter table crm_sync_runs add constraint crm_sync_runs_outcome_check check (outcome ~ '^[A-Za-z0-9_.-]{1,64}$');
alter table crm_sync_state
  add constraint crm_sync_state_blocked_by_check check (blocked_by ~ '^[A-Za-z0-9_.-]{1,64}$'),
  -- Somebody has confirmed the deletions of the full pass under way, however many they are.
  add column full_confirmed boolean not null default false;

-- Columns that the CRM did not tell: what is stored stays.
alter table crm_sync_staging add column untold text[] not null default '{}';
update crm_sync_staging set untold = '{company_ids}' where not has_company_ids;
alter table crm_sync_staging
  drop column has_company_ids,
  -- Of a contact that the list lacked: 'deleted', or the code with which the CRM refused to tell. It is kept with the pass, so
  -- that no hold and no restart has it asked for again. Null: the row is the contact itself.
  add column missing text check (missing ~ '^[A-Za-z0-9_.-]{1,64}$');

alter table crm_event_inbox
  -- How often the contact was asked for in vain since the event came, and when it is asked for again.
  add column attempts int not null default 0 check (attempts >= 0),
  add column retry_at timestamptz;

-- The contacts that differ from what is stored, as they will be. One that is new and was not told wholly is left out.
create function differing_crm_contacts(given crm_sync_staging[]) returns table (
  is_new boolean, bitrix_id bigint, phone text, company_ids bigint[], name text, assigned_by_id bigint,
  trouble_contact boolean, perplexity_reason text
) language sql stable as $$
  select stored.bitrix_id is null, n.*
  from unnest(given) c
  left join company_contacts stored using (bitrix_id)
  cross join lateral (
    select c.bitrix_id,
           case when 'phone' = any (c.untold) then stored.phone else c.phone end as phone,
           case when 'company_ids' = any (c.untold) then stored.company_ids else c.company_ids end as company_ids,
           case when 'name' = any (c.untold) then stored.name else c.name end as name,
           case when 'assigned_by_id' = any (c.untold) then stored.assigned_by_id else c.assigned_by_id end as assigned_by_id,
           case when 'trouble_contact' = any (c.untold) then stored.trouble_contact else c.trouble_contact end
             as trouble_contact,
           case when 'perplexity_reason' = any (c.untold) then stored.perplexity_reason else c.perplexity_reason end
             as perplexity_reason
  ) n
  where case
    when stored.bitrix_id is null then c.untold = '{}'
    else (n.phone, n.company_ids, n.name, n.assigned_by_id, n.trouble_contact, n.perplexity_reason)
         is distinct from
         (stored.phone, stored.company_ids, stored.name, stored.assigned_by_id, stored.trouble_contact, stored.perplexity_reason)
  end
$$;

-- Writes what differs, and only that.
create or replace function save_crm_contacts(given crm_sync_staging[], out created int, out changed int) language sql as $$
  with saved as (
    insert into company_contacts as stored
      (bitrix_id, phone, company_ids, name, assigned_by_id, trouble_contact, perplexity_reason)
    select bitrix_id, phone, company_ids, name, assigned_by_id, trouble_contact, perplexity_reason
    from differing_crm_contacts(given) order by bitrix_id
    on conflict (bitrix_id) do update set
      phone = excluded.phone, company_ids = excluded.company_ids, name = excluded.name,
      assigned_by_id = excluded.assigned_by_id, trouble_contact = excluded.trouble_contact,
      perplexity_reason = excluded.perplexity_reason, updated_at = now()
    returning xmax = 0 as is_new
  )
  select count(*) filter (where is_new)::int, count(*) filter (where not is_new)::int from saved
$$;

-- Makes a full pass visible, in the one transaction of its call: what it has staged, and the deletions that were confirmed,
-- unless they are held back. A pass that is incomplete deletes nothing, and its time does not count.
drop function finish_crm_full_pass(bigint[]);
create function finish_crm_full_pass(is_complete boolean, with_deletions boolean, out created int, out changed int, out deleted int)
language plpgsql as $$
begin
  select s.created, s.changed into created, changed
  from save_crm_contacts(array(select staged from crm_sync_staging staged where missing is null)) s;
  delete from company_contacts c using crm_sync_staging s
  where is_complete and with_deletions and s.missing = 'deleted' and c.bitrix_id = s.bitrix_id;
  get diagnostics deleted = row_count;
  if is_complete then
    update crm_sync_state set
      watermark = full_watermark, last_success_at = clock_timestamp(), last_full_at = clock_timestamp(),
      blocked_by = null, blocked_until = null;
  end if;
  update crm_sync_state set full_watermark = null, full_begun_at = null, full_cursor = null, full_confirmed = false;
  -- TRUNCATE would wait for every reader, such as a long dump.
  delete from crm_sync_staging;
end
$$;
