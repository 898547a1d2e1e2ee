{{ config(materialized='view') }}

-- current_date in this comment is not a clock
with source as (
    select * from {{ source('zendesk', 'tickets') }}
),

renamed as (
    select
        id as ticket_id,
        requester_id,
        lower(status) as status,
        coalesce(priority, 'normal') as priority,
        subject,
        created_at,
        updated_at,
        solved_at
    from source
    where not is_deleted
)

select
    *,
    datediff('hour', created_at, solved_at) as hours_to_solve,
    last_value(status) over (
        partition by requester_id order by created_at, ticket_id
        rows between unbounded preceding and unbounded following
    ) as requester_last_status
from renamed
