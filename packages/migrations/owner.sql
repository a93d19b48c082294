-- Creates all database roles, and makes contacts_owner, which is no superuser, the owner of this database and of everything
-- in its schema. A superuser runs it, on a new database or on one that has been in use, before "contacts migrate". Running it
-- again repairs what has changed, and keeps passwords, connection limits and settings of roles.
-- A role can log in once a superuser has given it a password (operations/postgres/passwords.sql).

do $$
declare
  statement text;
  roles constant text[] := array[
    'contacts_owner', 'personal_contacts_service', 'company_contacts_service', 'crm_sync_service', 'contacts_operator',
    'contacts_privacy', 'contacts_backup'
  ];
begin
  perform set_config('search_path', 'pg_catalog', true);
  -- A table in use is waited for, but not while everybody else waits behind.
  perform set_config('lock_timeout', '10s', true);

  for statement in
    select format('create role %I nologin', name)
    from unnest(roles) name
    where not exists (select from pg_roles where rolname = name)
  loop
    execute statement;
  end loop;

  for statement in
    -- Before PostgreSQL 16, a role that may create roles can join those that run programs on the server.
    select 'alter role contacts_owner nocreaterole' from pg_roles where rolname = 'contacts_owner' and rolcreaterole
    union all
    -- The owner has no rights of other roles, and none of the roles has those of another.
    select format('revoke %s from %s %s cascade', m.roleid::regrole, m.member::regrole,
                  case when current_setting('server_version_num')::int >= 160000 then format('granted by %s', m.grantor::regrole) end)
    from pg_auth_members m
    where m.member = 'contacts_owner'::regrole
       or (m.roleid = 'crm_sync_service'::regrole and m.member = 'contacts_operator'::regrole)
    union all
    -- For a server with 100 connections, three of which are for superusers. Whichever role is at its limit, the others have
    -- what two processes of each service and a synchroniser need (docs/deploy.md, "Connections").
    select format('alter role %I connection limit %s', name, connections)
    from (values
      ('company_contacts_service', 60), ('personal_contacts_service', 44), ('crm_sync_service', 20),
      ('contacts_operator', 8), ('contacts_owner', 5), ('contacts_privacy', 2),
      ('contacts_backup', 1)
    ) limits (name, connections)
    join pg_roles on rolname = name and rolconnlimit = -1
    union all
    -- The server notices within half a minute that a peer has died or left the network, not within the two hours that Linux waits
    -- by default: dead connections would fill the limits above.
    select format('alter role %I set %s to %L', name, setting, value)
    from unnest(roles) name
    cross join (values
      ('tcp_keepalives_idle', '15s'), ('tcp_keepalives_interval', '5s'), ('tcp_keepalives_count', '3'), ('tcp_user_timeout', '30s')
    ) settings (setting, value)
    where not exists (
      select from pg_roles, unnest(rolconfig) entry where rolname = name and starts_with(entry, setting || '=')
    )
    union all
    -- Needed for the statements below where a provider's administrator runs them, who is no superuser.
    select format('grant contacts_owner to %I', current_user) where not pg_has_role('contacts_owner', 'usage')
    union all
    select format('alter database %I owner to contacts_owner', datname)
    from pg_database where datname = current_database() and datdba <> 'contacts_owner'::regrole
    union all
    select 'alter schema public owner to pg_database_owner'
    from pg_namespace where nspname = 'public' and nspowner <> 'pg_database_owner'::regrole
    union all
    -- A sequence of a column follows its table.
    select format('alter table %s owner to contacts_owner', c.oid::regclass)
    from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
      and c.relowner <> 'contacts_owner'::regrole
      and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i', 'e'))
    union all
    select format('alter routine %s owner to contacts_owner', p.oid::regprocedure)
    from pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.proowner <> 'contacts_owner'::regrole
      and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
    union all
    -- A large object belongs to the role that creates it, and fills the disk. An advisory lock stops the program that waits for it.
    -- Only a superuser can revoke these.
    select format('revoke execute on function %s from public', p.oid::regprocedure)
    from pg_proc p
    where p.pronamespace = 'pg_catalog'::regnamespace and p.proname ~ '^(lo_creat|lo_create|lo_from_bytea|pg_(try_)?advisory_.*)$'
      and has_function_privilege('public', p.oid, 'execute') and pg_has_role(p.proowner, 'usage')
    union all
    -- One session at a time migrates, and one mirrors the CRM.
    select format('grant execute on function %s to contacts_owner, crm_sync_service, contacts_operator', p.oid::regprocedure)
    from pg_proc p
    where p.pronamespace = 'pg_catalog'::regnamespace and p.proname ~ '^pg_(try_)?advisory_'
      and pg_has_role(p.proowner, 'usage')
  loop
    execute statement;
  end loop;
end
$$;
