-- event load of one day, the path is filled in by the scheduler
-- rows that came before under the same event_id are replaced
create temp table events_stage (like analytics.events);

copy events_stage
from 's3://acme-events/export/2024-05-01/'
iam_role 'arn:aws:iam::000000000000:role/loader'
format as parquet;

begin;

delete from analytics.events
using events_stage
where analytics.events.event_id = events_stage.event_id;

insert into analytics.events
select distinct * from events_stage;

end;

drop table events_stage;

unload ('select event_name, count(*) from analytics.events where event_date = ''2024-05-01'' group by 1')
to 's3://acme-reports/events/2024-05-01/counts_'
iam_role 'arn:aws:iam::000000000000:role/loader'
allowoverwrite parallel off;
