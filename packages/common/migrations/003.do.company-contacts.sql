-- Contacts of companies, mirrored from the CRM.

create table company_contacts (
  id bigint generated always as identity primary key check (id <= 9007199254740991),
  bitrix_id bigint not null unique check (bitrix_id between 1 and 9007199254740991),
  -- E.164.
  phone text check (phone ~ '^\+[1-9][0-9]{1,14}$'),
  -- Linked companies in the CRM's order, primary first; null when there are none.
  company_ids bigint[] check (
    array_ndims(company_ids) = 1 and 0 < all (company_ids) and array_position(company_ids, null) is null
  ),
  name text,
  assigned_by_id bigint check (assigned_by_id between 1 and 9007199254740991),
  trouble_contact boolean not null default false,
  perplexity_reason text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create index company_contacts_by_company on company_contacts using gin (company_ids);
