-- rebuilds all tags each night, idempotent
SET hive.execution.engine=tez;

DROP TABLE IF EXISTS tmp.user_last_login;
CREATE TABLE tmp.user_last_login AS
SELECT user_id, MAX(login_ts) AS last_login, COUNT(1) AS logins
FROM ods.logins
WHERE dt <= '${dt}'
GROUP BY user_id;

INSERT OVERWRITE TABLE dm.user_tags
SELECT
    u.user_id,
    CASE WHEN l.logins >= 100 THEN 'heavy' WHEN l.logins >= 10 THEN 'medium' ELSE 'light' END AS usage_tag,
    CASE WHEN datediff('${dt}', to_date(l.last_login)) > 30 THEN 1 ELSE 0 END AS is_dormant,
    concat_ws(',', sort_array(collect_set(t.tag))) AS tags
FROM dim.users u
LEFT JOIN tmp.user_last_login l ON l.user_id = u.user_id
LEFT JOIN ods.user_tag t ON t.user_id = u.user_id
GROUP BY u.user_id, l.logins, l.last_login;

DROP TABLE IF EXISTS tmp.user_last_login;
