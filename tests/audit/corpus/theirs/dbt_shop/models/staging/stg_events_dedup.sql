{{ config(
    materialized = "incremental",
    unique_key = "event_key",
    incremental_strategy = "append"
) }}

with raw as (

    select
        payload:event_id::string as event_id,
        payload:user_id::string as user_id,
        payload:type::string as event_type,
        payload:ts::timestamp_ntz as occurred_at,
        _loaded_at
    from {{ source('kafka', 'events') }}
    {% if is_incremental() %}
    where _loaded_at >= dateadd('hour', -3, current_timestamp())
    {% endif %}

)

select
    md5(event_id || user_id || event_type) as event_key,
    event_id,
    user_id,
    event_type,
    occurred_at
from raw
qualify row_number() over (partition by event_id order by event_id) = 1
