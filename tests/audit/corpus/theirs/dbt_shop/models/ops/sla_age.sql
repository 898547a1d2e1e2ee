{{ config(materialized='table') }}

with open_tickets as (
    select ticket_id, created_at, priority
    from {{ ref('stg_tickets') }}
    where status <> 'closed'
),

aged as (
    select
        ticket_id,
        priority,
        datediff('day', created_at, current_date) as age_days
    from open_tickets
),

picked as (
    select
        priority,
        count(*) as tickets,
        avg(age_days) as avg_age,
        array_agg(ticket_id) as ticket_ids,
        max(age_days) as oldest
    from aged
    group by priority
)

select * from picked
