-- One role for each service and one for the operator, each with exactly what it needs. They can't log in before they are
-- given a password ("contacts migrate" does it, see the README); the owner of the tables is used for migrations alone.

do $$
declare
  name text;
begin
  foreach name in array array['personal_contacts_service', 'company_contacts_service', 'contacts_operator'] loop
    -- Roles belong to the whole server: another database of it may have made them, at this very moment even.
    if not exists (select from pg_roles where rolname = name) then
      begin
        execute format('create role %I nologin', name);
      exception when duplicate_object or unique_violation then null;
      end;
    end if;
  end loop;
end
$$;

revoke all on all tables in schema public from public;
revoke all on function raise_key_ring_version(), audit_project(), audit_key() from public;
grant usage on schema public to personal_contacts_service, company_contacts_service, contacts_operator;

-- Authentication, the same for both services.
grant select on projects, api_keys, key_ring_version to personal_contacts_service, company_contacts_service;
grant select, insert, update on api_key_uses to personal_contacts_service, company_contacts_service;

grant select, insert, update on personal_contacts to personal_contacts_service;
grant select on direct_subscriptions to personal_contacts_service;

grant select on company_contacts to company_contacts_service;

grant select, insert, update on projects, api_keys to contacts_operator;
grant select, insert, update on direct_subscriptions, company_contacts to contacts_operator;
grant select on api_key_uses, audit_log, key_ring_version, schema_migrations to contacts_operator;
