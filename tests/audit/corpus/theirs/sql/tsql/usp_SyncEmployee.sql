CREATE PROCEDURE hr.usp_SyncEmployee @BatchId INT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;

    BEGIN TRY
        SELECT EmployeeNo, FirstName, LastName, Email, DepartmentId, ModifiedAt
        INTO #batch
        FROM stg.Employee
        WHERE BatchId = @BatchId;

        BEGIN TRANSACTION;

        MERGE hr.Employee WITH (HOLDLOCK) AS tgt
        USING #batch AS src
        ON tgt.Email = src.Email
        WHEN MATCHED THEN
            UPDATE SET tgt.FirstName = src.FirstName,
                       tgt.LastName = src.LastName,
                       tgt.DepartmentId = src.DepartmentId,
                       tgt.ModifiedAt = src.ModifiedAt
        WHEN NOT MATCHED BY TARGET THEN
            INSERT (EmployeeNo, FirstName, LastName, Email, DepartmentId, ModifiedAt)
            VALUES (src.EmployeeNo, src.FirstName, src.LastName, src.Email, src.DepartmentId, src.ModifiedAt);

        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
        INSERT INTO dbo.ErrorLog (ErrorNumber, ErrorMessage, LoggedAt)
        VALUES (ERROR_NUMBER(), ERROR_MESSAGE(), GETDATE());
        THROW;
    END CATCH
END
