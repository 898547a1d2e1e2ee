/* one-off style helper that is also part of the nightly job: fills DimDate */
SET DATEFIRST 1;

DECLARE @d DATE = '2015-01-01';
DECLARE @end DATE = '2035-12-31';

IF OBJECT_ID('dbo.DimDate', 'U') IS NULL
BEGIN
    CREATE TABLE dbo.DimDate (
        DateKey INT NOT NULL PRIMARY KEY,
        TheDate DATE NOT NULL,
        WeekDayNo TINYINT NOT NULL,
        IsWeekend BIT NOT NULL
    );
END;

DELETE FROM dbo.DimDate;

WHILE @d <= @end
BEGIN
    INSERT INTO dbo.DimDate (DateKey, TheDate, WeekDayNo, IsWeekend)
    VALUES (CONVERT(INT, CONVERT(CHAR(8), @d, 112)), @d, DATEPART(WEEKDAY, @d),
            CASE WHEN DATEPART(WEEKDAY, @d) >= 6 THEN 1 ELSE 0 END);
    SET @d = DATEADD(DAY, 1, @d);
END;
