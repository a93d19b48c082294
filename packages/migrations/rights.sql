-- What each role may do, and nothing else. owner.sql creates the roles. Every run of "contacts migrate" executes this file, because
-- a restored dump has none of these rights: they name roles of the server and the database itself, which a dump does not hold.

-- Whatever an earlier release or a person has granted them goes first.
do $$
declare
  statement text;
  roles constant text := 'personal_contacts_service, company_contacts_service, crm_sync_service, contacts_operator, contacts_privacy, '
    'contacts_backup';
begin
  for statement in
    select format('revoke all on %s %s from %s', case relkind when 'S' then 'sequence' else 'table' end, oid::regclass, roles)
    from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'S') and pg_has_role(relowner, 'usage')
    union all
    select format('revoke all on routine %s from %s', oid::regprocedure, roles)
    from pg_proc
    where pronamespace = 'public'::regnamespace and pg_has_role(proowner, 'usage')
  loop
    execute statement;
  end loop;
end
$$;

revoke all on function
  public.raise_key_ring_version(), public.changed_columns(jsonb, jsonb), public.audit_project(), public.audit_key(),
  public.record_operation(text, jsonb), public.database_history(), public.lock_company_contacts_version(),
  public.record_company_contacts_changes(), public.begin_company_contacts_epoch(), public.begin_epoch_of_configuration(),
  public.prune_company_contacts_tombstones(), public.erase_company_contacts(bigint[])
from public;
-- Nobody but the owner needs objects of their own here. Who may not change this on a database or schema that belongs to another
-- role gets a warning of the server, and "contacts doctor" says what is left to do.
do $$
begin
  execute format('revoke temporary on database %I from public', current_database());
  revoke create on schema public from public;
end
$$;
-- Which server responds, for the poll of each program.
grant execute on function public.database_history()
  to personal_contacts_service, company_contacts_service, crm_sync_service;
grant usage on schema public
  to personal_contacts_service, company_contacts_service, crm_sync_service, contacts_operator, contacts_privacy, contacts_backup;

-- Authentication, the same for both services.
grant select on public.projects, public.api_keys, public.key_ring_version to personal_contacts_service, company_contacts_service;
grant select, insert, update on public.api_key_uses to personal_contacts_service, company_contacts_service;

grant select, insert, update on public.personal_contacts, public.direct_subscriptions to personal_contacts_service;

grant select on public.company_contacts, public.company_contacts_version, public.company_contacts_changes
  to company_contacts_service;
-- For the age of the data, in the list's headers and in the metrics.
grant select (last_success_at) on public.crm_sync_state to company_contacts_service;

-- The operator's "contacts sync" does the synchroniser's work by hand.
grant select, insert, update, delete on public.company_contacts to crm_sync_service, contacts_operator;
grant select, update on public.crm_sync_state, public.crm_sync_requests to crm_sync_service, contacts_operator;
grant select, insert, update, delete on public.crm_sync_staging, public.crm_sync_runs, public.crm_event_inbox,
  public.crm_sync_unreadable_phones
  to crm_sync_service, contacts_operator;
grant execute on function public.prune_company_contacts_tombstones() to crm_sync_service, contacts_operator;

grant select, insert on public.projects, public.api_keys to contacts_operator;
-- What the command changes of a project or key, and no other column.
grant update (disabled_at) on public.projects to contacts_operator;
grant update (expires_at, revoked_at) on public.api_keys to contacts_operator;
grant select on public.api_key_uses, public.audit_log, public.key_ring_version, public.schema_migrations to contacts_operator;
grant select, insert, update on public.direct_subscriptions to contacts_operator;
grant execute on function public.record_operation(text, jsonb) to contacts_operator, contacts_privacy;

-- A separate role serves the requests of persons to see or erase what is stored: nobody else may read personal contacts and
-- delete them, not even the operator.
grant select, delete on public.personal_contacts, public.direct_subscriptions to contacts_privacy;
grant select on public.company_contacts to contacts_privacy;
-- The project that wrote last.
grant select (id, code) on public.projects to contacts_privacy;
grant execute on function public.erase_company_contacts(bigint[]) to contacts_privacy;

-- A dump of the whole database, and nothing else.
grant select on
  public.schema_migrations, public.projects, public.api_keys, public.api_key_uses, public.key_ring_version, public.audit_log,
  public.personal_contacts, public.direct_subscriptions,
  public.company_contacts, public.company_contacts_version, public.company_contacts_changes,
  public.crm_sync_state, public.crm_sync_requests, public.crm_sync_staging, public.crm_sync_runs, public.crm_event_inbox,
  public.crm_sync_unreadable_phones
  to contacts_backup;
grant select on sequence
  public.projects_id_seq, public.api_keys_id_seq, public.audit_log_id_seq, public.company_contacts_id_seq,
  public.crm_sync_runs_id_seq
  to contacts_backup;
