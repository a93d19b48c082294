-- No role can have its own objects found by functions that run with the owner's rights, and the audit log tells everything
-- that an update has changed.

-- Temporary tables and types are found before all others unless a search path names pg_temp. These functions name it last,
-- and name every object with its schema. Times are logged in UTC, whatever the session has set.
alter function public.notify_company_contacts_changed() set search_path = pg_catalog, pg_temp;

create or replace function public.raise_key_ring_version() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.key_ring_version set version = version + 1;
  perform pg_notify('key_ring_changed', '');
  return null;
end
$$;

-- Each column that differs, with its old and its new value. Of a hash only that it has changed.
create function public.changed_columns(before jsonb, after jsonb) returns jsonb language sql immutable
set search_path = pg_catalog, pg_temp as $$
  select coalesce(
    jsonb_object_agg(key, case when key = 'hash' then '"changed"' else jsonb_build_object('from', b.value, 'to', a.value) end),
    '{}'
  )
  from jsonb_each(before) b join jsonb_each(after) a using (key)
  where a.value is distinct from b.value
$$;

-- One row for each project that a change concerns: two, where a project gets another code or a key another project.
create or replace function public.audit_project() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  action text;
  details jsonb := '{}';
begin
  if tg_op = 'INSERT' then action := 'project created';
  elsif tg_op = 'DELETE' then action := 'project deleted';
  else
    details := public.changed_columns(to_jsonb(old), to_jsonb(new));
    if details = '{}' then return null; end if;
    action := case
      when details - 'disabled_at' <> '{}' then 'project changed'
      when old.disabled_at is null then 'project disabled'
      when new.disabled_at is null then 'project enabled'
      else 'project changed'
    end;
  end if;
  insert into public.audit_log (actor, role, action, project, details)
  select coalesce(nullif(current_setting('contacts.actor', true), ''), session_user), session_user, action, concerned.code, details
  from (select old.code union select new.code) concerned
  where concerned.code is not null;
  return null;
end
$$;

create or replace function public.audit_key() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  action text;
  details jsonb := '{}';
begin
  if tg_op = 'INSERT' then
    action := 'key created';
    details := jsonb_strip_nulls(jsonb_build_object('service', new.service, 'expires_at', new.expires_at));
  elsif tg_op = 'DELETE' then action := 'key deleted';
  else
    details := public.changed_columns(to_jsonb(old), to_jsonb(new));
    if details = '{}' then return null; end if;
    action := case
      when details - 'expires_at' = '{}' then 'key expiry changed'
      when details - 'revoked_at' <> '{}' then 'key changed'
      when old.revoked_at is null then 'key revoked'
      when new.revoked_at is null then 'key revocation undone'
      else 'key changed'
    end;
  end if;
  insert into public.audit_log (actor, role, action, project, key_id, details)
  select coalesce(nullif(current_setting('contacts.actor', true), ''), session_user), session_user, action, p.code, coalesce(new.id, old.id), details
  from public.projects p where p.id in (old.project_id, new.project_id);
  return null;
end
$$;

revoke all on function public.changed_columns(jsonb, jsonb) from public;

-- Nobody but the owner needs objects of their own here. Who may not change this on a database or schema that belongs to
-- another role gets a warning of the server, and "contacts doctor" tells what is left to do.
do $$
begin
  execute format('revoke temporary on database %I from public', current_database());
  revoke create on schema public from public;
end
$$;

-- What "contacts" changes of a project or key, and no other column.
revoke update on public.projects, public.api_keys from contacts_operator;
grant update (disabled_at) on public.projects to contacts_operator;
grant update (expires_at, revoked_at) on public.api_keys to contacts_operator;
