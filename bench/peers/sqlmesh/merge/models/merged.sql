MODEL (
  name lake.$space.merged,
  kind INCREMENTAL_BY_UNIQUE_KEY (unique_key id),
  table_format iceberg
);

SELECT id, version, name
FROM $raw
WHERE arrived BETWEEN @start_date AND @end_date
