{{ config(materialized='table', schema='marts') }}

-- full rebuild each run, nothing incremental here

with customers as (
    select * from {{ ref('stg_shop__customers') }}
),

orders as (
    select
        customer_id,
        min(ordered_at) as first_order_at,
        max(ordered_at) as most_recent_order_at,
        count(order_id) as number_of_orders,
        sum(amount) as lifetime_value
    from {{ ref('fct_orders') }}
    group by customer_id
),

ranked as (
    select
        customer_id,
        email,
        country,
        row_number() over (partition by customer_id order by valid_from desc, _fivetran_id desc) as rn
    from customers
)

select
    ranked.customer_id,
    ranked.email,
    ranked.country,
    orders.first_order_at,
    orders.most_recent_order_at,
    coalesce(orders.number_of_orders, 0) as number_of_orders,
    orders.lifetime_value,
    current_timestamp as dbt_loaded_at
from ranked
left join orders on orders.customer_id = ranked.customer_id
where ranked.rn = 1
