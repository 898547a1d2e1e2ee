select customer_id, count(*) as orders, cast(sum(amount) as decimal(18, 2)) as amount, order_date
from {{ ref('facts') }}
where order_date between date '{{ var("first") }}' and date '{{ var("last") }}'
group by order_date, customer_id
