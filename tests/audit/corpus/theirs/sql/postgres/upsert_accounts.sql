-- Accounts: the source is deduplicated by the newest version; older versions never win.
WITH latest AS (
    SELECT account_id, owner_id, status, balance, version,
           ROW_NUMBER() OVER (PARTITION BY account_id ORDER BY version DESC, batch_line DESC) AS rn
    FROM stage.account
    WHERE batch_id = :batch_id
)
INSERT INTO core.account AS a (account_id, owner_id, status, balance, version)
SELECT account_id, owner_id, status, balance, version
FROM latest
WHERE rn = 1
ON CONFLICT (account_id) DO UPDATE
SET owner_id = EXCLUDED.owner_id,
    status   = EXCLUDED.status,
    balance  = EXCLUDED.balance,
    version  = EXCLUDED.version
WHERE a.version < EXCLUDED.version;

INSERT INTO ops.load_audit (job_name, batch_id, finished_at)
VALUES ('upsert_accounts', :batch_id, now());
