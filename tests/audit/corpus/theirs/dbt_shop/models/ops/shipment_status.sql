{{
    config(
        materialized='incremental',
        incremental_strategy='merge',
        unique_key=['shipment_id', 'status_at']
    )
}}

with scans as (

    select
        shipment_id,
        status,
        status_at,
        depot
    from {{ source('carrier', 'scans') }}
    where 1 = 1
    {% if is_incremental() %}
      and status_at >= '{{ var("from_ts") }}'
    {% endif %}

),

enriched as (

    select distinct
        s.shipment_id,
        s.status,
        s.status_at,
        d.region,
        getdate() as etl_inserted_at
    from scans s
    left join {{ ref('depots') }} d on d.depot = s.depot

)

select * from enriched
