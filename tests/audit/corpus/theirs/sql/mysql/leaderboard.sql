-- leaderboard refresh, run from cron hourly
START TRANSACTION;

CREATE TEMPORARY TABLE hour_points AS
SELECT player_id, SUM(points) AS points, COUNT(*) AS games
FROM game_result
WHERE finished_at >= NOW() - INTERVAL 1 HOUR
GROUP BY player_id;

INSERT INTO leaderboard (player_id, points, games)
SELECT player_id, points, games FROM hour_points
ON DUPLICATE KEY UPDATE
    points = leaderboard.points + VALUES(points),
    games = leaderboard.games + VALUES(games);

COMMIT;

INSERT INTO badge (badge_key, player_id, badge, given_at)
SELECT CONCAT(player_id, 'gold'), player_id, 'gold', CURRENT_TIMESTAMP
FROM leaderboard
WHERE points > 1000
  AND player_id NOT IN (SELECT player_id FROM badge WHERE badge = 'gold');

CREATE TABLE winner_backup LIKE leaderboard;
INSERT INTO winner_backup SELECT * FROM leaderboard ORDER BY points DESC LIMIT 100;
