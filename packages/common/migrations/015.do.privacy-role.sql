-- Who answers a person's request to see or erase what is stored about them has a role of its own: nobody else may read
-- personal contacts and delete them, not even the operator.

do $$
begin
  if not exists (select from pg_roles where rolname = 'contacts_privacy') then
    begin
      create role contacts_privacy nologin;
    exception when duplicate_object or unique_violation then null;
    end;
  end if;
end
$$;

grant usage on schema public to contacts_privacy;
grant select, delete on personal_contacts, direct_subscriptions, direct_subscription_reports to contacts_privacy;
grant select on company_contacts to contacts_privacy;
-- The project that wrote last.
grant select (id, code) on projects to contacts_privacy;
grant execute on function public.record_operation(text, jsonb) to contacts_privacy;
