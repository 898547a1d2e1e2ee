-- reconciles bank lines with invoices
CREATE OR REPLACE TABLE `fin.recon.matched` AS
WITH inv AS (
  SELECT invoice_no, SUM(line_total_f) AS total
  FROM `fin.core.invoice_line`
  WHERE booking_month = '2024-04'
  GROUP BY invoice_no
),
bank AS (
  SELECT bank_line_id, SUM(CAST(amount AS FLOAT64)) AS total
  FROM `fin.core.bank_line`
  WHERE booking_month = '2024-04'
  GROUP BY bank_line_id
)
SELECT inv.invoice_no, bank.bank_line_id
FROM inv
JOIN bank ON inv.total = bank.total;

CREATE OR REPLACE TABLE `fin.recon.sample_for_audit` AS
SELECT invoice_no, bank_line_id
FROM `fin.recon.matched`
ORDER BY RAND()
LIMIT 200;

CREATE OR REPLACE TABLE `fin.recon.first_line` AS
SELECT * EXCEPT (rn)
FROM (
  SELECT m.*, ROW_NUMBER() OVER (PARTITION BY invoice_no ORDER BY bank_line_id) AS rn
  FROM `fin.recon.matched` m
)
WHERE rn = 1;
