MODEL (
  name lake.$space.facts,
  kind INCREMENTAL_BY_TIME_RANGE (time_column order_date),
  partitioned_by order_date,
  table_format iceberg,
  end '$last'
);

SELECT
  order_date,
  order_id,
  max_by(customer_id, version) AS customer_id,
  max_by(amount, version) AS amount,
  substring(sha2(concat('n', cast(octet_length(cast(order_id AS string)) AS string), ':', cast(order_id AS string)), 256), 1, 32) AS order_key
FROM $raw
WHERE order_date BETWEEN @start_date AND @end_date
GROUP BY order_date, order_id
