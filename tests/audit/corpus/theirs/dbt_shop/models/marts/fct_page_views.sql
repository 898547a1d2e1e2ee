{{ config(materialized="incremental", on_schema_change="append_new_columns") }}

with source as (
    select
        event_id,
        anonymous_id,
        user_id,
        page_url,
        referrer,
        event_timestamp,
        cast(event_timestamp as date) as event_date
    from {{ source('segment', 'pages') }}
),

filtered as (
    select *
    from source
    where page_url is not null
    {% if is_incremental() %}
      and event_timestamp > (select coalesce(max(event_timestamp), '1900-01-01') from {{ this }})
    {% endif %}
)

select
    {{ dbt_utils.generate_surrogate_key(['event_id']) }} as page_view_id,
    *
from filtered
