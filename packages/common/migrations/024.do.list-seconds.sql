-- HTTP has whole seconds, and two states of a list in the same second look the same to a client that asks with If-Modified-Since.
-- It may read the first one at any time before the second is committed, so each state gets a second for itself.
create or replace function public.record_company_contacts_lists() returns trigger language plpgsql
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
     insert into public.company_contacts_lists as known (company_id, changed_at)
     select company_id, $1
     from (select 0 from changed union select unnest(company_ids) from changed) as list (company_id)
     on conflict (company_id) do update set changed_at = case
       when ceil(extract(epoch from excluded.changed_at)) > ceil(extract(epoch from known.changed_at)) then excluded.changed_at
       else known.changed_at + interval ''1 second''
     end',
    written, gone
  ) using clock_timestamp();
  return null;
end
$$;
