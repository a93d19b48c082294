-- Users of personal chats, and the direct subscriptions of these chats to the bot.

create table public.personal_contacts (
  -- Within what a JSON number holds exactly.
  chat_id bigint primary key check (chat_id <> 0 and chat_id between -9007199254740991 and 9007199254740991),
  username text check (char_length(username) <= 255),
  name text check (char_length(name) <= 255),
  birth_date date,
  -- The project that wrote last.
  project_id bigint not null references public.projects (id),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

-- One row for each chat that was ever reported; no history. A subscription is active while `ended_at` is null or later than both
-- the clock and `reported_at`: an end that was reported holds even when the clock is set back after it.
create table public.direct_subscriptions (
  chat_id bigint primary key check (chat_id <> 0 and chat_id between -9007199254740991 and 9007199254740991),
  -- Null: only its end was ever reported.
  started_at timestamptz default now(),
  -- Null: open-ended. A time in the future is a planned end.
  ended_at timestamptz,
  -- When the last report was applied, by the database's clock. A report that was sent before it is not applied any more.
  reported_at timestamptz not null default clock_timestamp(),
  check (ended_at >= started_at),
  check (started_at is not null or ended_at <= reported_at)
);
-- They are listed page by page, the newest first.
create index direct_subscriptions_by_start on public.direct_subscriptions (started_at, chat_id);
