-- What the operator does with a chat's subscriptions counts as a report too: one of the bot that was sent before it, and is
-- delivered late, must not be applied any more. It comes first in the operator's transaction, because reports lock in this order.
create function public.override_direct_subscription_reports(chats bigint[]) returns void language sql
security definer set search_path = pg_catalog, pg_temp as $$
  insert into public.direct_subscription_reports (chat_id, applied_at)
  select chat_id, clock_timestamp() from (select distinct unnest(chats) as chat_id) as given order by chat_id
  on conflict (chat_id) do update set applied_at = clock_timestamp();
$$;

revoke all on function public.override_direct_subscription_reports(bigint[]) from public;
grant execute on function public.override_direct_subscription_reports(bigint[]) to contacts_operator;
