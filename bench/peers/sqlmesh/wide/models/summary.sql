MODEL (
  name lake.$space.summary,
  kind INCREMENTAL_BY_TIME_RANGE (time_column order_date),
  partitioned_by order_date,
  table_format iceberg,
  end '$last'
);

SELECT order_date, customer_id, count(*) AS orders, cast(sum(amount) AS decimal(18, 2)) AS amount
FROM lake.$space.facts
WHERE order_date BETWEEN @start_date AND @end_date
GROUP BY order_date, customer_id
