{{ config(
    materialized='incremental',
    unique_key=['user_id', 'snapshot_at'],
    incremental_strategy='delete+insert'
) }}

select
    user_id,
    current_timestamp() as snapshot_at,
    count(distinct session_id) as sessions_28d,
    sum(pageviews) as pageviews_28d,
    sum(case when device = 'mobile' then 1 else 0 end) as mobile_sessions_28d,
    sum(case when device = 'tablet' then 1 else 0 end) as tablet_sessions_28d,
    min(session_date) as first_seen_28d,
    max(session_date) as last_seen_28d
from {{ ref('fct_sessions') }}
where session_date >= dateadd(day, -28, current_date())
group by user_id
