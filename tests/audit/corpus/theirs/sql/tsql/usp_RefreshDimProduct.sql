IF OBJECT_ID('dbo.usp_RefreshDimProduct') IS NOT NULL DROP PROCEDURE dbo.usp_RefreshDimProduct
GO
CREATE PROCEDURE dbo.usp_RefreshDimProduct
AS
BEGIN
    SET XACT_ABORT ON;
    DECLARE @started DATETIME2 = SYSUTCDATETIME();
    DECLARE @deleted INT, @inserted INT;

    BEGIN TRAN;
        DELETE FROM dbo.DimProduct;
        SET @deleted = @@ROWCOUNT;

        INSERT INTO dbo.DimProduct (ProductNo, Title, CategoryPath, ListPrice)
        SELECT p.ProductNo, p.Title, CONCAT(c.Level1, N' / ', c.Level2), p.ListPrice
        FROM src.Product p
        JOIN src.Category c ON c.CategoryId = p.CategoryId;
        SET @inserted = @@ROWCOUNT;
    COMMIT TRAN;

    PRINT CONCAT('deleted ', @deleted, ', inserted ', @inserted, ' in ', DATEDIFF(ms, @started, SYSUTCDATETIME()), ' ms');
END
GO
