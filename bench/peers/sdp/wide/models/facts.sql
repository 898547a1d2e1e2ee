CREATE MATERIALIZED VIEW facts
USING iceberg
PARTITIONED BY (order_date)
AS
SELECT
  order_date,
  order_id,
  max_by(customer_id, version) AS customer_id,
  max_by(amount, version) AS amount,
  substring(sha2(concat('n', cast(octet_length(cast(order_id AS string)) AS string), ':', cast(order_id AS string)), 256), 1, 32) AS order_key
FROM $raw
GROUP BY order_date, order_id;
