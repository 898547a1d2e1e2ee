-- MERGE ... ON FALSE: an atomic replacement of one day (scheduled query, @run_date is given by the scheduler)
DECLARE day DATE DEFAULT @run_date;

CREATE TABLE IF NOT EXISTS `proj.mart.item_sales`
(
  sale_day DATE,
  item_id STRING,
  units INT64,
  revenue NUMERIC
)
PARTITION BY sale_day;

MERGE `proj.mart.item_sales` t
USING (
  SELECT sale_day, item_id, SUM(units) AS units, SUM(revenue) AS revenue
  FROM `proj.core.sales_lines`
  WHERE sale_day = day
  GROUP BY sale_day, item_id
) s
ON FALSE
WHEN NOT MATCHED BY SOURCE AND t.sale_day = day THEN DELETE
WHEN NOT MATCHED BY TARGET THEN
  INSERT (sale_day, item_id, units, revenue) VALUES (sale_day, item_id, units, revenue);

SELECT COUNT(*) AS rows_of_day FROM `proj.mart.item_sales` WHERE sale_day = day;
