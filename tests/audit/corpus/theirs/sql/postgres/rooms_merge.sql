-- Postgres 15 merge of hotel rooms; the property can be unknown for imported rooms
CREATE TABLE IF NOT EXISTS hotel.room (
    room_no      text NOT NULL,
    property_id  bigint NULL,
    beds         int,
    rate         numeric(10,2),
    changed_at   timestamptz
);

MERGE INTO hotel.room r
USING stage.room s
ON r.room_no = s.room_no AND r.property_id = s.property_id
WHEN MATCHED THEN
    UPDATE SET beds = s.beds, rate = s.rate, changed_at = s.changed_at
WHEN NOT MATCHED THEN
    INSERT (room_no, property_id, beds, rate, changed_at)
    VALUES (s.room_no, s.property_id, s.beds, s.rate, s.changed_at);

-- occupancy of the last night
INSERT INTO hotel.occupancy (night, property_id, rooms_taken)
SELECT date 'yesterday', property_id, count(*)
FROM hotel.stay
WHERE checkin <= 'yesterday' AND checkout > 'yesterday'
GROUP BY property_id;
