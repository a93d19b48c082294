-- Tells every process that serves the list when a contact has changed, at the commit. A statement that changed nothing, as
-- most of a synchroniser's, tells nobody.

create function notify_company_contacts_changed() returns trigger language plpgsql as $$
begin
  if tg_op = 'TRUNCATE' then
    perform pg_notify('company_contacts_changed', '');
  elsif exists (select from changed) then
    perform pg_notify('company_contacts_changed', '');
  end if;
  return null;
end
$$;

create trigger company_contacts_inserted after insert on company_contacts
  referencing new table as changed for each statement execute function notify_company_contacts_changed();
create trigger company_contacts_updated after update on company_contacts
  referencing new table as changed for each statement execute function notify_company_contacts_changed();
create trigger company_contacts_deleted after delete on company_contacts
  referencing old table as changed for each statement execute function notify_company_contacts_changed();
create trigger company_contacts_truncated after truncate on company_contacts
  for each statement execute function notify_company_contacts_changed();
