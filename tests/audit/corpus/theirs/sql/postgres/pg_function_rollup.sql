CREATE OR REPLACE FUNCTION metrics.rollup_day(p_day date) RETURNS bigint
LANGUAGE plpgsql AS $fn$
DECLARE
    n bigint;
    t0 timestamptz := clock_timestamp();
BEGIN
    DELETE FROM metrics.daily WHERE day = p_day;

    INSERT INTO metrics.daily (day, metric, value)
    SELECT p_day, metric, avg(value)
    FROM metrics.sample
    WHERE sampled_at >= p_day AND sampled_at < p_day + 1
    GROUP BY metric;

    GET DIAGNOSTICS n = ROW_COUNT;
    RAISE NOTICE 'rolled up % rows in %', n, clock_timestamp() - t0;
    RETURN n;
END;
$fn$;

SELECT metrics.rollup_day(:'day'::date);

-- retention: raw samples are kept 30 days
DELETE FROM metrics.sample WHERE sampled_at < now() - interval '30 days';
