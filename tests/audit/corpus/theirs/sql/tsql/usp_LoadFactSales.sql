USE [DWH]
GO
SET ANSI_NULLS ON
GO
-- =============================================
-- Author:      J. Marsh
-- Create date: 2019-11-04
-- Description: Loads fact sales from staging
-- =============================================
CREATE OR ALTER PROCEDURE [dbo].[usp_LoadFactSales]
    @LoadDate DATE = NULL
AS
BEGIN
    SET NOCOUNT ON;

    IF @LoadDate IS NULL
        SET @LoadDate = CAST(GETDATE() AS DATE);

    DECLARE @rows INT = 0, @i INT = 1;
    DECLARE @stores TABLE (StoreId INT);
    INSERT INTO @stores SELECT StoreId FROM dbo.DimStore WHERE IsActive = 1;

    WHILE @i <= 3
    BEGIN
        SET @i = @i + 1;
    END

    SELECT NEWID() AS SalesKey, s.StoreId, s.ProductId, s.Qty, s.Amount, s.SaleDate
    INTO #sales
    FROM stg.Sales s
    WHERE s.SaleDate = @LoadDate
      AND s.StoreId IN (SELECT StoreId FROM @stores);

    INSERT INTO dbo.FactSales (SalesKey, StoreId, ProductId, Qty, Amount, SaleDate)
    SELECT SalesKey, StoreId, ProductId, Qty, Amount, SaleDate FROM #sales;

    SET @rows = @@ROWCOUNT;

    INSERT INTO etl.RunLog (ProcName, Rows, LoggedAt) VALUES ('usp_LoadFactSales', @rows, SYSDATETIME());
    DROP TABLE #sales;
END
GO
