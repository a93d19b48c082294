-- A report counts from the moment at which it is applied, also after the clock was set back or a server took over whose clock is
-- behind. What earlier reports have begun or ended would then lie in the future, and what upserts see with it. So its times become
-- the present first. What is planned for later than all reports stays.
create or replace function public.apply_direct_subscription_report(
  chat bigint, is_active boolean, reported_at timestamptz, sent_at_least timestamptz, expires timestamptz
) returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  latest timestamptz;
  moment timestamptz;
begin
  select applied_at into latest from public.direct_subscription_reports where chat_id = chat for update;
  insert into public.direct_subscription_reports as stored (chat_id, applied_at)
  select chat, clock_timestamp() where clock_timestamp() < expires
  on conflict (chat_id) do update set applied_at = clock_timestamp()
  -- A time in the future only means that the clock was set back.
  where clock_timestamp() < expires and (stored.applied_at <= sent_at_least or stored.applied_at > clock_timestamp())
  returning applied_at into moment;
  if not found or clock_timestamp() >= expires then return false; end if;
  if latest > moment then
    update public.direct_subscriptions s
    set started_at = least(s.started_at, moment),
        ended_at = case when s.ended_at <= latest then least(s.ended_at, moment) else s.ended_at end
    where s.chat_id = chat and s.started_at <= latest;
  end if;
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
