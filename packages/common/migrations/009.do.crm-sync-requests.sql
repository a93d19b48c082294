-- What the mirror is made with, so that nothing goes on under another configuration; and what commands ask of the
-- synchroniser that runs.

-- Portal, user of the webhook, field codes, options, country and version of the mapping; never the webhook's secret. Null:
-- not known yet.
alter table crm_sync_state add column configuration jsonb;

create table crm_sync_requests (
  id bigint generated always as identity primary key,
  kind text not null check (kind in ('pass', 'full', 'contact', 'dry-run')),
  bitrix_id bigint check (bitrix_id between 1 and 9007199254740991),
  confirm_mass_delete boolean not null default false,
  -- With what the command was started: the synchroniser refuses a request of another configuration than its own.
  configuration jsonb not null,
  requested_at timestamptz not null default clock_timestamp(),
  -- The command renews it for as long as it waits. A request that nobody waits for any more is never begun.
  wanted_until timestamptz not null,
  taken_at timestamptz,
  seen bigint,
  total bigint,
  ended_at timestamptz,
  -- What was done, or the error that prevented it.
  result jsonb,
  check ((kind = 'contact') = (bitrix_id is not null))
);

-- TRUNCATE needs a lock that waits for every reader, such as a long dump: DELETE waits for none.
create or replace function finish_crm_full_pass(deleted_ids bigint[], out created int, out changed int, out deleted int) language plpgsql as $$
begin
  select s.created, s.changed into created, changed
  from save_crm_contacts(array(select staged from crm_sync_staging staged)) s;
  delete from company_contacts where bitrix_id = any (deleted_ids);
  get diagnostics deleted = row_count;
  update crm_sync_state set
    watermark = full_watermark, last_success_at = clock_timestamp(), last_full_at = clock_timestamp(),
    full_watermark = null, full_begun_at = null, full_cursor = null, blocked_by = null, blocked_until = null;
  delete from crm_sync_staging;
end
$$;
revoke truncate on crm_sync_staging from company_contacts_sync;

-- Old runs are deleted.
grant delete on crm_sync_runs to company_contacts_sync;

grant select, update, delete on crm_sync_requests to company_contacts_sync;
-- The rest it has as a member of company_contacts_sync.
grant insert on crm_sync_requests to contacts_operator;
