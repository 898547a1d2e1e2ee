{{ config(materialized='incremental', unique_key='rate_key') }}

{%- set start = var('start_date') -%}
{%- set end = var('end_date') -%}

with rates as (
    select currency, rate_date, rate, source_system, received_seq
    from {{ source('treasury', 'fx_rates') }}
    where rate_date >= '{{ start }}' and rate_date < '{{ end }}'
),

deduped as (
    select *,
        row_number() over (partition by currency, rate_date order by received_seq desc) as rn
    from rates
)

select
    {{ dbt_utils.generate_surrogate_key(['currency', 'rate_date']) }} as rate_key,
    currency,
    rate_date,
    rate,
    source_system
from deduped
where rn = 1
