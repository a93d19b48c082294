-- Without a CRM nobody else deletes a company contact, so a person's request to erase it is answered here. With a CRM the contact
-- has to be deleted there: the next full pass would save it again.

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

revoke all on function public.erase_company_contacts(bigint[]) from public;
grant execute on function public.erase_company_contacts(bigint[]) to contacts_privacy;
