select
  order_id,
  max_by(customer_id, version) as customer_id,
  max_by(amount, version) as amount,
  substring(sha2(concat('n', cast(octet_length(cast(order_id as string)) as string), ':', cast(order_id as string)), 256), 1, 32) as order_key,
  order_date
from {{ source('raw', '$raw_name') }}
where order_date between date '{{ var("first") }}' and date '{{ var("last") }}'
group by order_date, order_id
