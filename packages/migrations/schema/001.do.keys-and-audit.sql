-- API clients, their keys, and who changed them.

create table public.projects (
  id bigint generated always as identity primary key,
  code text not null unique check (code ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  created_at timestamptz not null default now(),
  disabled_at timestamptz,
  -- It sees invented contacts alone, from its creation on and for good.
  sandbox boolean not null default false
);

create table public.api_keys (
  id bigint generated always as identity primary key,
  project_id bigint not null references public.projects (id),
  name text check (name ~ '^[^[:cntrl:]]{1,100}$'),
  -- SHA-256 of the key. The key itself is stored nowhere.
  hash bytea not null check (octet_length(hash) = 32),
  -- The only service that accepts this key; null: every service.
  service text check (service in ('personal-contacts', 'company-contacts')),
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  -- From its creation to the end that was given then; null: none was given. A rotation moves the end, and the successor lives as long.
  lifetime interval check (lifetime > '0'),
  revoked_at timestamptz,
  unique (project_id, hash)
);

-- Apart from api_keys, so that services can write here and nowhere near a key. Sampled: it may lag by a minute.
create table public.api_key_uses (
  key_id bigint primary key references public.api_keys (id),
  last_used_at timestamptz not null
);

-- One row. Every change of a project or key increases the version, so that a process can ask with one small read whether its
-- snapshot is current, and so that changes of keys have one order.
create table public.key_ring_version (
  only_row boolean primary key default true check (only_row),
  version bigint not null
);
insert into public.key_ring_version (version) values (1);

-- The functions of triggers run with the owner's rights. Temporary tables and types are found before all others unless a
-- search path names pg_temp: these functions name it last, and name every object with its schema.
create function public.raise_key_ring_version() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
  update public.key_ring_version set version = version + 1;
  return null;
end
$$;

create trigger projects_changed after insert or update or delete or truncate on public.projects
  for each statement execute function public.raise_key_ring_version();
create trigger api_keys_changed after insert or update or delete or truncate on public.api_keys
  for each statement execute function public.raise_key_ring_version();

create table public.audit_log (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  -- The person, as the operator's command reports it in a setting of its session. It is cut off, because no change may fail for it.
  actor text not null default left(coalesce(nullif(current_setting('contacts.actor', true), ''), session_user), 255)
    check (char_length(actor) <= 255),
  -- The database role, which nobody can choose.
  role text not null default session_user,
  action text not null check (char_length(action) <= 100),
  -- Null for an operation that concerns no project.
  project text,
  key_id bigint,
  details jsonb not null default '{}' check (octet_length(details::text) <= 16384)
);
create index audit_log_by_project on public.audit_log (project, id);

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

-- Row triggers record a change made by hand in SQL like one made by the command. Nobody but the owner can write the log.
-- A change leaves one row for each project that it concerns: two when a project gets another code or a key another project.
create function public.audit_project() returns trigger language plpgsql
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
  insert into public.audit_log (action, project, details)
  select action, concerned.code, details
  from (select old.code union select new.code) concerned
  where concerned.code is not null;
  return null;
end
$$;
create trigger projects_audited after insert or update or delete on public.projects
  for each row execute function public.audit_project();

create function public.audit_key() returns trigger language plpgsql
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
  insert into public.audit_log (action, project, key_id, details)
  select action, p.code, coalesce(new.id, old.id), details
  from public.projects p where p.id in (old.project_id, new.project_id);
  return null;
end
$$;
create trigger api_keys_audited after insert or update or delete on public.api_keys
  for each row execute function public.audit_key();

-- Records what the operator's command has done. The operations are a list, so that what the triggers record can't be imitated, in any
-- spelling.
create function public.record_operation(action text, details jsonb) returns void language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
  if action not in (
    'subscription started', 'subscription ended', 'subscriptions import started', 'subscriptions imported',
    'person exported', 'person erased', 'personal contacts pruned',
    'contacts import started', 'contacts imported', 'mass deletion confirmed', 'new configuration confirmed'
  ) then
    raise exception 'no such operation; changes of projects and keys record themselves' using errcode = 'check_violation';
  end if;
  insert into public.audit_log (action, details) values (action, details);
end
$$;
