SET hive.exec.dynamic.partition=true;
SET hive.exec.dynamic.partition.mode=nonstrict;
SET mapreduce.job.queuename=etl;

USE gmv;

CREATE EXTERNAL TABLE IF NOT EXISTS gmv_daily (
    shop_id BIGINT,
    orders BIGINT,
    gmv DECIMAL(20,2)
)
PARTITIONED BY (dt STRING)
STORED AS ORC
LOCATION '/warehouse/gmv/gmv_daily';

INSERT OVERWRITE TABLE gmv_daily PARTITION (dt = '${hivevar:dt}')
SELECT shop_id, COUNT(DISTINCT order_id), SUM(amount)
FROM ods.orders
WHERE dt = '${hivevar:dt}' AND status <> 'CANCELLED'
GROUP BY shop_id;

INSERT INTO TABLE gmv_total
SELECT '${hivevar:dt}', SUM(orders), SUM(gmv)
FROM gmv_daily WHERE dt = '${hivevar:dt}';

LOAD DATA INPATH '/landing/shops/${hivevar:dt}/shops.csv' INTO TABLE shop_dim;
