-- Users of personal chats, and their direct subscriptions to the bot.

create table personal_contacts (
  -- Within what a JSON number carries exactly.
  chat_id bigint primary key check (chat_id <> 0 and chat_id between -9007199254740991 and 9007199254740991),
  username text check (char_length(username) <= 255),
  name text check (char_length(name) <= 255),
  birth_date date,
  -- The project that wrote last.
  project_id bigint not null references projects (id),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table direct_subscriptions (
  id bigint generated always as identity primary key,
  chat_id bigint not null check (chat_id <> 0 and chat_id between -9007199254740991 and 9007199254740991),
  started_at timestamptz not null default now(),
  -- Null: open-ended. Active from started_at until ended_at, which is no longer part of it.
  ended_at timestamptz,
  check (ended_at >= started_at)
);

create index direct_subscriptions_by_chat on direct_subscriptions (chat_id, started_at);
-- A chat has at most one open-ended subscription.
create unique index direct_subscriptions_open on direct_subscriptions (chat_id) where ended_at is null;
