-- Subscriptions are listed page by page, the newest first: without an index each page would sort all of them again.
create index direct_subscriptions_by_start on public.direct_subscriptions (started_at, id);
