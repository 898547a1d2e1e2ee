{{
  config(
    materialized = 'incremental',
    incremental_strategy = 'insert_overwrite',
    partition_by = {'field': 'month_start', 'data_type': 'date'},
  )
}}

{# the month is always passed in by the scheduler: dbt run --vars '{"month": "2024-05-01"}' #}
{% set month = var('month') %}

with subs as (
    select subscription_id, account_id, plan, monthly_amount, started_on, ended_on
    from {{ ref('stg_subscriptions') }}
    where started_on < date_add(date '{{ month }}', interval 1 month)
      and (ended_on is null or ended_on >= date '{{ month }}')
)

select
    date '{{ month }}' as month_start,
    account_id,
    plan,
    sum(monthly_amount) as mrr,
    count(*) as subscriptions
from subs
group by 1, 2, 3
