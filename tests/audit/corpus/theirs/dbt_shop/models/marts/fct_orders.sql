{{
    config(
        materialized='incremental',
        unique_key='order_id',
        incremental_strategy='merge',
        tags=['daily']
    )
}}

with orders as (

    select * from {{ ref('stg_shop__orders') }}

    {% if is_incremental() %}
    where updated_at > (select max(updated_at) from {{ this }})
    {% endif %}

),

payments as (

    select
        order_id,
        sum(case when status = 'success' then amount else 0 end) as paid_amount
    from {{ ref('stg_payments') }}
    group by 1

)

select
    orders.order_id,
    orders.customer_id,
    orders.ordered_at,
    orders.status,
    coalesce(payments.paid_amount, 0) as paid_amount,
    orders.updated_at
from orders
left join payments using (order_id)
