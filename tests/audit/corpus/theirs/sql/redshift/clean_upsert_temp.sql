-- stage and swap for the sensors dimension
begin transaction;

create temporary table sensor_new as
select sensor_id, site, model, installed_on
from (
    select *, row_number() over (partition by sensor_id order by revision desc, file_line desc) as rn
    from landing.sensor
    where batch = :batch
) x
where rn = 1;

lock table dim.sensor;

delete from dim.sensor using sensor_new where dim.sensor.sensor_id = sensor_new.sensor_id;

insert into dim.sensor (sensor_id, site, model, installed_on)
select sensor_id, site, model, installed_on from sensor_new;

end transaction;
