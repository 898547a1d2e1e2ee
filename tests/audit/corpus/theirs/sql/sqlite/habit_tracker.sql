PRAGMA foreign_keys = ON;

CREATE TABLE IF NOT EXISTS entry (
    entry_id INTEGER PRIMARY KEY AUTOINCREMENT,
    habit TEXT NOT NULL,
    day TEXT NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    UNIQUE (habit, day)
);

ATTACH DATABASE 'import.db' AS imp;

INSERT OR IGNORE INTO entry (habit, day, done)
SELECT habit, day, MAX(done) FROM imp.entry GROUP BY habit, day;

INSERT INTO entry (habit, day, done)
SELECT habit, day, done FROM imp.correction
WHERE true
ON CONFLICT (habit, day) DO UPDATE SET done = excluded.done;

CREATE VIEW IF NOT EXISTS streak AS
SELECT habit, COUNT(*) AS days FROM entry WHERE done = 1 GROUP BY habit;

DETACH DATABASE imp;
