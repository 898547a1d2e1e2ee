-- reloads the KPI table of the call center
TRUNCATE TABLE kpi.CallCenter;

INSERT INTO kpi.CallCenter (AgentId, KpiDate, Calls, AvgSeconds, LastOutcome)
SELECT c.AgentId,
       CAST(c.StartedAt AS DATE),
       COUNT(*),
       AVG(DATEDIFF(SECOND, c.StartedAt, c.EndedAt)),
       MAX(c.Outcome)
FROM tel.Call c
GROUP BY c.AgentId, CAST(c.StartedAt AS DATE);

SELECT TOP 100 CallId, AgentId, Recording
INTO kpi.ReviewCalls
FROM tel.Call
WHERE DATEDIFF(SECOND, StartedAt, EndedAt) > 600;

SELECT TOP 10 * FROM kpi.CallCenter;

INSERT INTO kpi.AgentBonus (AgentId, BonusMonth, Points)
SELECT AgentId, @Month, SUM(Calls)
FROM kpi.CallCenter
WHERE AgentId NOT IN (SELECT AgentId FROM kpi.AgentBonus WHERE BonusMonth = @Month)
GROUP BY AgentId;
