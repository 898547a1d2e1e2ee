-- spark-sql -f order_items_increment.sql
SET spark.sql.sources.partitionOverwriteMode = dynamic;

CREATE OR REPLACE TEMPORARY VIEW new_items AS
SELECT o.order_id, o.line_no, o.sku, o.qty, o.updated_at, to_date(o.updated_at) AS upd_date
FROM raw.order_items o
WHERE o.updated_at > (SELECT COALESCE(MAX(updated_at), TIMESTAMP '1970-01-01') FROM silver.order_items);

INSERT OVERWRITE TABLE silver.order_items PARTITION (upd_date)
SELECT order_id, line_no, sku, qty, updated_at, upd_date
FROM new_items;

CREATE OR REPLACE TEMPORARY VIEW order_delta AS
SELECT order_id, SUM(qty * p.price) AS value
FROM new_items i JOIN dim.price p ON p.sku = i.sku
GROUP BY order_id;

MERGE INTO gold.order_value t
USING order_delta s
ON t.order_id = s.order_id
WHEN MATCHED THEN UPDATE SET t.value = t.value + s.value
WHEN NOT MATCHED THEN INSERT (order_id, value) VALUES (s.order_id, s.value);
