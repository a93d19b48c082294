-- Keys have names, and the audit log has operations on the whole database beside changes of projects and keys.

alter table public.api_keys add column name text check (name ~ '^[^[:cntrl:]]{1,100}$');

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
  details := jsonb_strip_nulls(jsonb_build_object('name', coalesce(new.name, old.name))) || details;
  insert into public.audit_log (actor, role, action, project, key_id, details)
  select coalesce(nullif(current_setting('contacts.actor', true), ''), session_user), session_user, action, p.code, coalesce(new.id, old.id), details
  from public.projects p where p.id in (old.project_id, new.project_id);
  return null;
end
$$;

-- Of an operation that concerns no project.
alter table public.audit_log alter column project drop not null;

-- Records what the operator's command has done. What triggers record can't be imitated.
create function public.record_operation(action text, details jsonb) returns void language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
  if action ~ '^(project|key) ' then
    raise exception 'changes of projects and keys record themselves' using errcode = 'check_violation';
  end if;
  insert into public.audit_log (actor, role, action, details)
  values (coalesce(nullif(current_setting('contacts.actor', true), ''), session_user), session_user, action, details);
end
$$;

revoke all on function public.record_operation(text, jsonb) from public;
grant execute on function public.record_operation(text, jsonb) to contacts_operator;
