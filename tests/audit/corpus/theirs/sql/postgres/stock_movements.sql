-- nightly booking of stock movements into stock levels

CREATE TEMP TABLE tmp_moves AS
SELECT sku, warehouse_id, SUM(qty) AS qty
FROM wms.movement
WHERE moved_at BETWEEN :'from_ts' AND :'to_ts'
GROUP BY sku, warehouse_id;

UPDATE wms.stock_level s
SET quantity = s.quantity + m.qty,
    changed_at = now()
FROM tmp_moves m
WHERE m.sku = s.sku AND m.warehouse_id = s.warehouse_id;

INSERT INTO wms.stock_level (sku, warehouse_id, quantity, changed_at)
SELECT m.sku, m.warehouse_id, m.qty, now()
FROM tmp_moves m
WHERE NOT EXISTS (
    SELECT 1 FROM wms.stock_level s
    WHERE s.sku = m.sku AND s.warehouse_id = m.warehouse_id
);

DROP TABLE tmp_moves;
