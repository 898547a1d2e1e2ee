-- picks up what arrived in the last day, appends to the fact table
INSERT INTO `proj.mart.fact_event` (event_id, device_id, event_time, payload, row_key)
SELECT
  event_id,
  device_id,
  event_time,
  payload,
  TO_HEX(MD5(CONCAT(device_id, CAST(CURRENT_TIMESTAMP() AS STRING)))) AS row_key
FROM `proj.landing.event`
WHERE _PARTITIONTIME >= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)
  AND event_id NOT IN (
    SELECT event_id FROM `proj.mart.blocked_event`
  );

CREATE OR REPLACE TABLE `proj.mart.sample_event` AS
SELECT event_id, device_id, payload
FROM `proj.mart.fact_event` TABLESAMPLE SYSTEM (1 PERCENT);

CREATE OR REPLACE TABLE `proj.mart.device_examples` AS
SELECT device_id, event_id, payload
FROM `proj.mart.fact_event`
WHERE payload IS NOT NULL
LIMIT 1000;
