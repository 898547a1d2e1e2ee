{{ config(materialized='incremental', unique_key='customer_email', incremental_strategy='merge') }}

with batch as (
    select
        customer_email,
        amount,
        order_ts
    from {{ ref('stg_shop__orders') }}
    {% if is_incremental() %}
    where order_ts > (select max(last_order_ts) from {{ this }})
    {% endif %}
),

agg as (
    select customer_email, sum(amount) as revenue, max(order_ts) as last_order_ts, any_value(amount) as sample_amount
    from batch
    group by customer_email
)

select
    agg.customer_email,
    agg.revenue {% if is_incremental() %} + coalesce(old.revenue, 0) {% endif %} as revenue,
    agg.last_order_ts,
    agg.sample_amount
from agg
{% if is_incremental() %}
left join {{ this }} old on old.customer_email = agg.customer_email
{% endif %}
