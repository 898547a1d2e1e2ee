SET QUOTED_IDENTIFIER ON
GO
CREATE OR ALTER PROCEDURE acc.usp_NightlyBalance
    @BusinessDate DATE,
    @Debug BIT = 0
AS
/*  Author : T. Okoye
    Purpose: books the daily interest and carries the balances forward
    History: 2017-02-11 first version
             2020-08-30 branch added
             2022-01-05 dormant accounts skipped */
BEGIN
    SET NOCOUNT ON;

    DECLARE @StartedAt DATETIME2(3) = SYSDATETIME();
    DECLARE @Rows INT, @Msg NVARCHAR(400), @Retry INT = 0;

    IF @Debug = 1
        PRINT 'business date ' + CONVERT(VARCHAR(10), @BusinessDate, 120);

    IF OBJECT_ID('tempdb..#acc') IS NOT NULL DROP TABLE #acc;

    CREATE TABLE #acc (
        AccountId INT NOT NULL PRIMARY KEY,
        BranchId INT NOT NULL,
        Rate DECIMAL(9,6) NOT NULL
    );

    INSERT INTO #acc (AccountId, BranchId, Rate)
    SELECT a.AccountId, a.BranchId, r.Rate
    FROM acc.Account a
    JOIN acc.InterestRate r ON r.ProductId = a.ProductId AND r.ValidOn = @BusinessDate
    WHERE a.State = 'A' AND a.IsDormant = 0;

    BEGIN TRANSACTION;

    UPDATE b
    SET b.Balance = b.Balance + b.Balance * t.Rate / 365.0,
        b.ModifiedAt = SYSDATETIME()
    FROM acc.Balance b
    JOIN #acc t ON t.AccountId = b.AccountId;

    SET @Rows = @@ROWCOUNT;

    INSERT INTO acc.InterestBooking (BookingId, AccountId, BusinessDate, Amount)
    SELECT (SELECT ISNULL(MAX(BookingId), 0) FROM acc.InterestBooking) + ROW_NUMBER() OVER (ORDER BY t.BranchId),
           t.AccountId, @BusinessDate, b.Balance * t.Rate / 365.0
    FROM #acc t
    JOIN acc.Balance b ON b.AccountId = t.AccountId;

    DELETE FROM acc.BalanceHistory WHERE BusinessDate = @BusinessDate;
    INSERT INTO acc.BalanceHistory (BusinessDate, AccountId, Balance)
    SELECT @BusinessDate, AccountId, Balance FROM acc.Balance;

    COMMIT TRANSACTION;

    WHILE @Retry < 3 AND NOT EXISTS (SELECT 1 FROM acc.BalanceHistory WHERE BusinessDate = @BusinessDate)
    BEGIN
        SET @Retry = @Retry + 1;
        WAITFOR DELAY '00:00:05';
    END;

    SET @Msg = CONCAT('balances: ', @Rows, ' in ', DATEDIFF(SECOND, @StartedAt, SYSDATETIME()), ' s');
    EXEC dbo.usp_Log @Msg;
END
GO
