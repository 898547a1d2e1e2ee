select id, version, name
from {{ source('raw', '$raw_name') }}
where arrived between date '{{ var("first") }}' and date '{{ var("last") }}'
