-- collects what the gateways dropped into the inbox folder
-- duckdb readings.duckdb -c ".read append_readings.sql"
CREATE SEQUENCE IF NOT EXISTS reading_id;

CREATE TABLE IF NOT EXISTS reading (
    id INTEGER DEFAULT nextval('reading_id'),
    device TEXT,
    at TIMESTAMP,
    value DOUBLE
);

INSERT INTO reading (device, at, value)
SELECT device, at, value
FROM read_json_auto('inbox/*.json');

INSERT INTO device_summary
SELECT device, sum(value) AS total, string_agg(DISTINCT unit, ',') AS units
FROM reading JOIN device_unit USING (device)
GROUP BY device
HAVING sum(value) NOT IN (SELECT total FROM device_summary);
