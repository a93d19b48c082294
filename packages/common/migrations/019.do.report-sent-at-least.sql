-- The time at which a report was sent is known only within the time that the network takes. With an upper bound of it, a report
-- that was delivered late was applied over a newer one from that time. The parameter is a lower bound now: such a report returns
-- false and is sent again. A parameter can't be renamed in place. Nothing else changes.
drop function public.apply_direct_subscription_report(bigint, boolean, timestamptz, timestamptz, timestamptz);

-- Applies one report in the transaction of its call. It is PL/pgSQL because each of its statements sees what was committed
-- before it: what to do is decided behind the lock of the chat's row, and reports of one chat have one order.
--
-- The last report decides whether the subscription is active; `reported_at` says since when. It lies between the end of the
-- chat's last subscription and now for a start, and between the start and now for an end. What is planned stays, but for an
-- open-ended subscription, of which a chat has one: it begins earlier.
--
-- Returns false when the report has expired or is older than the one that was applied last; nothing is changed then.
create function public.apply_direct_subscription_report(
  chat bigint, is_active boolean, reported_at timestamptz, sent_at_least timestamptz, expires timestamptz
) returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  moment timestamptz;
begin
  insert into public.direct_subscription_reports as stored (chat_id, applied_at)
  select chat, clock_timestamp() where clock_timestamp() < expires
  on conflict (chat_id) do update set applied_at = clock_timestamp()
  -- A time that is still to come says that the server's clock was set back, and nothing else.
  where clock_timestamp() < expires and (stored.applied_at <= sent_at_least or stored.applied_at > clock_timestamp());
  moment := clock_timestamp();
  if not found or moment >= expires then return false; end if;
  if is_active then
    insert into public.direct_subscriptions as stored (chat_id, started_at)
    select chat, greatest(least(reported_at, moment), max(s.ended_at) filter (where s.ended_at <= moment))
    from public.direct_subscriptions s where s.chat_id = chat
    having count(*) filter (where s.started_at <= moment and (s.ended_at is null or s.ended_at > moment)) = 0
    on conflict (chat_id) where ended_at is null do update set started_at = excluded.started_at
    where stored.started_at > excluded.started_at;
  else
    update public.direct_subscriptions s set ended_at = greatest(least(reported_at, moment), s.started_at)
    where s.chat_id = chat and s.started_at <= moment and (s.ended_at is null or s.ended_at > moment);
  end if;
  return true;
end
$$;

revoke all on function public.apply_direct_subscription_report(bigint, boolean, timestamptz, timestamptz, timestamptz) from public;
grant execute on function public.apply_direct_subscription_report(bigint, boolean, timestamptz, timestamptz, timestamptz)
  to personal_contacts_service;
