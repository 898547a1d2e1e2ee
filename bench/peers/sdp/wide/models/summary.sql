CREATE MATERIALIZED VIEW summary
USING iceberg
PARTITIONED BY (order_date)
AS
SELECT order_date, customer_id, count(*) AS orders, cast(sum(amount) AS decimal(18, 2)) AS amount
FROM facts
GROUP BY order_date, customer_id;
