-- Contacts of the CRM with a phone that could not be read: their phone is null although something stands in the field.
create table public.crm_sync_unreadable_phones (
  bitrix_id bigint primary key
);
