DECLARE run_date DATE DEFAULT DATE_SUB(CURRENT_DATE('Europe/Paris'), INTERVAL 1 DAY);

CREATE TEMP TABLE day_sessions AS
SELECT
  user_pseudo_id,
  ga_session_id,
  DATE(TIMESTAMP_MICROS(MIN(event_timestamp))) AS session_date,
  ARRAY_AGG(page_location IGNORE NULLS) AS pages,
  ANY_VALUE(geo.country) AS country,
  COUNTIF(event_name = 'purchase') AS purchases
FROM `proj.analytics.events`
WHERE event_date = run_date
GROUP BY 1, 2;

MERGE `proj.mart.sessions` t
USING day_sessions s
ON t.user_pseudo_id = s.user_pseudo_id AND t.ga_session_id = s.ga_session_id
WHEN MATCHED THEN
  UPDATE SET pages = s.pages, country = s.country, purchases = s.purchases
WHEN NOT MATCHED THEN
  INSERT (user_pseudo_id, ga_session_id, session_date, pages, country, purchases)
  VALUES (user_pseudo_id, ga_session_id, session_date, pages, country, purchases);
