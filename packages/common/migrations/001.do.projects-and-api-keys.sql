-- API clients and their keys, for both services.

create table projects (
  id bigint generated always as identity primary key,
  code text not null unique check (code ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  created_at timestamptz not null default now(),
  disabled_at timestamptz
);

create table api_keys (
  id bigint generated always as identity primary key,
  project_id bigint not null references projects (id),
  -- SHA-256 of the key; the key itself is stored nowhere.
  hash bytea not null check (octet_length(hash) = 32),
  -- The only service that takes this key; null: every service.
  service text check (service in ('personal-contacts', 'company-contacts')),
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  unique (project_id, hash)
);

-- One row. Every change of a project or key raises the version, so that a process can ask whether its snapshot is current
-- with one small read, and so that changes of keys are ordered.
create table key_ring_version (
  only_row boolean primary key default true check (only_row),
  version bigint not null
);
insert into key_ring_version (version) values (1);

create function raise_key_ring_version() returns trigger language plpgsql as $$
begin
  update key_ring_version set version = version + 1;
  perform pg_notify('key_ring_changed', '');
  return null;
end
$$;

create trigger projects_changed after insert or update or delete or truncate on projects
  for each statement execute function raise_key_ring_version();
create trigger api_keys_changed after insert or update or delete or truncate on api_keys
  for each statement execute function raise_key_ring_version();
