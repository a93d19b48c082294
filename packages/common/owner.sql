-- Makes contacts_owner, which is no superuser, the owner of this database and of everything in its schema. For a superuser,
-- on a new database or on one that has been in use, before "contacts migrate". Running it again changes nothing.
-- Then give the role a password, and let it log in.

do $$
declare
  statement text;
begin
  perform set_config('search_path', 'pg_catalog', true);
  -- A table in use is waited for, but not while everybody else waits behind.
  perform set_config('lock_timeout', '10s', true);

  if not exists (select from pg_roles where rolname = 'contacts_owner') then
    -- It makes the roles of the services and sets their passwords.
    create role contacts_owner nologin createrole;
  end if;
  for statement in
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
    -- Roles that a superuser has made before.
    select format('grant %I to contacts_owner with admin option', r.rolname)
    from pg_roles r
    where r.rolname in ('personal_contacts_service', 'company_contacts_service', 'company_contacts_sync', 'contacts_operator', 'contacts_privacy')
      and not exists (
        select from pg_auth_members m where m.roleid = r.oid and m.member = 'contacts_owner'::regrole and m.admin_option
      )
  loop
    execute statement;
  end loop;
end
$$;
