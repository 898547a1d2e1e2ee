-- Daily revenue mart. Called by cron: psql -v ds="'2024-05-01'" -f daily_revenue.sql
\set ON_ERROR_STOP on

BEGIN;

DELETE FROM mart.daily_revenue
WHERE revenue_date = :ds::date;

INSERT INTO mart.daily_revenue (revenue_date, store_id, gross, net, receipts)
SELECT
    r.sold_at::date      AS revenue_date,
    r.store_id,
    SUM(r.gross_amount)  AS gross,
    SUM(r.net_amount)    AS net,
    COUNT(*)             AS receipts
FROM pos.receipt r
WHERE r.sold_at >= :ds::date
  AND r.sold_at <  :ds::date + INTERVAL '1 day'
GROUP BY 1, 2;

COMMIT;

ANALYZE mart.daily_revenue;
