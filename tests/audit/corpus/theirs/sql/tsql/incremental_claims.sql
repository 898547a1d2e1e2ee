-- runs every night by SQL Agent
USE Insurance;
GO
SET NOCOUNT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

DECLARE @last DATETIME2;
SELECT @last = MAX(ClaimUpdatedAt) FROM dwh.Claim;

INSERT INTO dwh.Claim (ClaimId, PolicyId, State, Amount, ClaimUpdatedAt)
SELECT c.ClaimId, c.PolicyId, c.State, c.Amount, c.UpdatedAt
FROM src.Claim c
WHERE c.UpdatedAt > @last;

DECLARE @next INT = (SELECT ISNULL(MAX(BatchNo), 0) + 1 FROM dwh.ClaimBatch);
INSERT INTO dwh.ClaimBatch (BatchNo, ClaimCount, CreatedAt)
SELECT @next, COUNT(*), SYSDATETIME()
FROM dwh.Claim WHERE ClaimUpdatedAt > @last;

UPDATE dwh.Claim SET IsOpen = 0 WHERE State IN ('CLOSED', 'REJECTED');
