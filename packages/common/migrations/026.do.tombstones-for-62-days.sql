-- A cursor is good for 30 days. A reader that was away for 30 days has another 30 for its pages: the cursor of a page is a
-- position among the changes, and these may be as old as the cursor before the first page. Two days more, because a deletion is
-- recorded with the time of its statement, and may have been committed later.
create or replace function public.prune_company_contacts_tombstones() returns void language plpgsql
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
