-- When each key was last used, and who changed projects and keys.

-- Apart from api_keys, so that services can write here and nowhere near a key. Sampled: it may lag by a minute.
create table api_key_uses (
  key_id bigint primary key references api_keys (id),
  last_used_at timestamptz not null
);

create table audit_log (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  -- The person, as the operator's command tells it, and the database role that cannot be chosen freely.
  actor text not null,
  role text not null,
  action text not null,
  project text not null,
  key_id bigint,
  details jsonb not null default '{}'
);

create index audit_log_by_project on audit_log (project, id);

-- Row triggers, so that a change made by hand in SQL is recorded like one made by the command. They run with the owner's
-- rights: nobody else can write the log.
create function audit_project() returns trigger language plpgsql security definer set search_path = pg_catalog, public as $$
declare
  action text;
begin
  if tg_op = 'INSERT' then action := 'project created';
  elsif tg_op = 'DELETE' then action := 'project deleted';
  elsif old.disabled_at is null and new.disabled_at is not null then action := 'project disabled';
  elsif old.disabled_at is not null and new.disabled_at is null then action := 'project enabled';
  elsif old is distinct from new then action := 'project changed';
  else return null;
  end if;
  insert into audit_log (actor, role, action, project)
  values (coalesce(nullif(current_setting('contacts.actor', true), ''), session_user), session_user, action, coalesce(new.code, old.code));
  return null;
end
$$;

create function audit_key() returns trigger language plpgsql security definer set search_path = pg_catalog, public as $$
declare
  action text;
  details jsonb := '{}';
begin
  if tg_op = 'INSERT' then
    action := 'key created';
    details := jsonb_strip_nulls(jsonb_build_object('service', new.service, 'expires_at', new.expires_at));
  elsif tg_op = 'DELETE' then action := 'key deleted';
  elsif old.revoked_at is null and new.revoked_at is not null then action := 'key revoked';
  elsif old.expires_at is distinct from new.expires_at then
    action := 'key expiry changed';
    details := jsonb_build_object('expires_at', new.expires_at);
  elsif old is distinct from new then action := 'key changed';
  else return null;
  end if;
  insert into audit_log (actor, role, action, project, key_id, details)
  select coalesce(nullif(current_setting('contacts.actor', true), ''), session_user), session_user, action, p.code, coalesce(new.id, old.id), details
  from projects p where p.id = coalesce(new.project_id, old.project_id);
  return null;
end
$$;

create trigger projects_audited after insert or update or delete on projects for each row execute function audit_project();
create trigger api_keys_audited after insert or update or delete on api_keys for each row execute function audit_key();

-- Whoever may change a key may have the change announced, and need not be able to write the version itself.
alter function raise_key_ring_version() security definer set search_path = pg_catalog, public;
