-- Statement lines of a month.  psql -v month=2024-03-01
-- Owner: retail banking reporting. Runs on the second working day; finance asks for reruns
-- of single months several times a year, usually after corrections of bookings.

SET search_path TO bank, public;
SET statement_timeout TO '30min';

DELETE FROM bank.statement_line
WHERE statement_month = date_trunc('month', :'month'::date);

INSERT INTO bank.statement_line (statement_month, account_id, booking_id, amount, text)
SELECT date_trunc('month', b.booked_at), b.account_id, b.booking_id, b.amount, b.text
FROM bank.booking b
WHERE b.booked_at >= :'month'::date;

INSERT INTO bank.statement_total (statement_month, account_id, total)
SELECT statement_month, account_id, SUM(amount)
FROM bank.statement_line
WHERE statement_month = date_trunc('month', :'month'::date)
GROUP BY 1, 2;
