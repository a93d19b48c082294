-- When each list last changed: HTTP's Last-Modified. A list that has always been empty has no row.

create table public.company_contacts_lists (
  -- 0: the list of all contacts.
  company_id bigint primary key,
  changed_at timestamptz not null
);

-- Writers hold company_contacts_version until they commit, so the times of a list become visible in their order.
create function public.record_company_contacts_lists() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
  nothing constant text := '(select * from public.company_contacts where false)';
  written constant text := case when tg_op in ('INSERT', 'UPDATE') then 'written' else nothing end;
  gone constant text := case tg_op when 'INSERT' then nothing when 'TRUNCATE' then 'public.company_contacts' else 'gone' end;
begin
  -- Planned anew for each statement: after one that changed a single contact, another may change a million.
  execute format(
    'with changed as (
       select w.company_ids || g.company_ids as company_ids
       from %s w full join %s g using (id)
       where (w.bitrix_id, w.phone, w.company_ids, w.name, w.assigned_by_id, w.trouble_contact, w.perplexity_reason)
             is distinct from
             (g.bitrix_id, g.phone, g.company_ids, g.name, g.assigned_by_id, g.trouble_contact, g.perplexity_reason)
     )
     insert into public.company_contacts_lists (company_id, changed_at)
     select company_id, $1
     from (select 0 from changed union select unnest(company_ids) from changed) as list (company_id)
     on conflict (company_id) do update set changed_at = excluded.changed_at',
    written, gone
  ) using clock_timestamp();
  return null;
end
$$;

create trigger company_contacts_lists_inserted after insert on public.company_contacts
  referencing new table as written for each statement execute function public.record_company_contacts_lists();
create trigger company_contacts_lists_updated after update on public.company_contacts
  referencing old table as gone new table as written
  for each statement execute function public.record_company_contacts_lists();
create trigger company_contacts_lists_deleted after delete on public.company_contacts
  referencing old table as gone for each statement execute function public.record_company_contacts_lists();
-- Before it: what is gone can be read for the last time.
create trigger company_contacts_lists_truncated before truncate on public.company_contacts
  for each statement execute function public.record_company_contacts_lists();

insert into public.company_contacts_lists (company_id, changed_at)
select company_id, max(updated_at)
from (
  select 0, updated_at from public.company_contacts
  union all
  select unnest(company_ids), updated_at from public.company_contacts
) as list (company_id, updated_at)
group by company_id;

revoke all on function public.record_company_contacts_lists() from public;
grant select on public.company_contacts_lists to company_contacts_service;
