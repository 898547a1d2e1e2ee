-- marketing touchpoints, scheduled in Redshift query scheduler at 05:00
-- cost arrives up to three days late, therefore three days are loaded again
set query_group to 'etl';
set statement_timeout to 600000;

begin;
delete from mkt.touchpoint where touch_date >= current_date - 3;
commit;

insert into mkt.touchpoint (touch_id, user_id, touch_date, channel, campaign, cost)
select
    row_number() over (order by v.visit_ts) as touch_id,
    v.user_id,
    v.visit_ts::date,
    v.channel,
    listagg(distinct v.campaign, ',') as campaign,
    sum(c.cost)
from web.visit v
left join mkt.cost c on c.campaign = v.campaign and c.cost_date = v.visit_ts::date
where v.visit_ts >= current_date - 3
group by v.user_id, v.visit_ts, v.channel;
