-- nightly housekeeping and the daily order counts
-- ${run_date} is given by the orchestrator

CALL lake.system.expire_snapshots(table => 'core.orders', older_than => TIMESTAMP '2024-01-01 00:00:00', retain_last => 20);
CALL lake.system.rewrite_data_files('core.orders');

CREATE TABLE IF NOT EXISTS lake.core.order_daily (
    order_day DATE, country STRING, orders BIGINT, value DECIMAL(20,2)
) USING iceberg PARTITIONED BY (order_day);

-- replace one day
INSERT OVERWRITE lake.core.order_daily
PARTITION (order_day = DATE '${run_date}')
SELECT country, COUNT(*) AS orders, SUM(total) AS value
FROM lake.core.orders
WHERE order_ts >= TIMESTAMP '${run_date} 00:00:00'
  AND order_ts < TIMESTAMP '${run_date} 00:00:00' + INTERVAL 1 DAY
GROUP BY country;

SELECT * FROM lake.core.order_daily ORDER BY order_day DESC LIMIT 7;
