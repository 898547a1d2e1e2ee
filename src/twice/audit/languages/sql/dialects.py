"""Which dialect a SQL text is written in, as far as its words tell."""

from __future__ import annotations

import re

# What users may write, and sqlglot's name for it.
DIALECTS = {
    "spark": "databricks", "databricks": "databricks", "delta": "databricks", "hive": "hive", "postgres": "postgres", "postgresql": "postgres",
    "redshift": "redshift", "snowflake": "snowflake", "bigquery": "bigquery", "tsql": "tsql", "sqlserver": "tsql", "mssql": "tsql",
    "synapse": "tsql", "duckdb": "duckdb", "sqlite": "sqlite", "mysql": "mysql", "mariadb": "mysql", "trino": "trino",
    "presto": "presto", "athena": "athena", "oracle": "oracle", "clickhouse": "clickhouse", "teradata": "teradata", "ansi": "", "generic": "",
}  # fmt: skip

_SIGNS: list[tuple[str, re.Pattern[str], int]] = [
    (name, re.compile(pattern, re.IGNORECASE | re.MULTILINE), weight)
    for name, pattern, weight in [
        ("tsql", r"^\s*GO\s*$|\bGETDATE\s*\(|\bSYSDATETIME\b|\bGETUTCDATE\b|\[dbo\]|\bdbo\.|\bNVARCHAR\b|\bDECLARE\s+@|\bSET\s+NOCOUNT|\bBEGIN\s+TRAN\b|@@\w+|\bNEWID\s*\(|\bWITH\s*\(NOLOCK|\bSELECT\s+TOP\b|(FROM|INTO|TABLE|UPDATE)\s+#\w|\[\w+\]\.\[\w+\]|\bOBJECT_ID\s*\(|\bEXEC(UTE)?\s+\w", 3),
        ("snowflake", r"\bCOPY\s+INTO\b|\bFILE_FORMAT\s*=|\bVARIANT\b|\bCREATE\s+(OR\s+REPLACE\s+)?(STAGE|STREAM|TASK|TRANSIENT)\b|\bSYSDATE\(\)|\bUUID_STRING\b|\bDATEADD\s*\(\s*'?(day|hour)|\$\w+:\w+|\bMETADATA\$|\bSYSTEM\$|\bIFF\s*\(|\bCONVERT_TIMEZONE\b|\bTO_TIMESTAMP_NTZ\b", 2),
        ("bigquery", r"`[\w-]+\.[\w-]+\.[\w$*-]+`|\b_PARTITION(TIME|DATE)\b|\bSAFE_CAST\b|\bDATE_SUB\s*\([^)]*INTERVAL|\bGENERATE_UUID\b|\bTIMESTAMP_(SUB|ADD|TRUNC)\b|\bCREATE\s+TEMP\s+FUNCTION|\bEXCEPT\s*\(|\bFARM_FINGERPRINT\b|\bSTRUCT<|\b@run_date\b|\bINT64\b|\bFLOAT64\b", 2),
        ("databricks", r"\bUSING\s+(DELTA|ICEBERG|PARQUET)\b|\bINSERT\s+OVERWRITE\b|\bPARTITIONED\s+BY\b|\bdate_sub\s*\(|\bZORDER\b|\bOPTIMIZE\b|\bdelta\.`|\bUPDATE\s+SET\s+\*|\bcollect_list\b|\bLATERAL\s+VIEW\b|\bREPLACE\s+WHERE\b|\bCREATE\s+OR\s+REPLACE\s+TEMP(ORARY)?\s+VIEW\b|\bDISTRIBUTE\s+BY\b|\bmonotonically_increasing_id\b", 2),
        ("hive", r"\bSTORED\s+AS\b|\bROW\s+FORMAT\b|\bhiveconf\b|\bMSCK\s+REPAIR\b|\bLOAD\s+DATA\b|\bhivevar\b|\bTBLPROPERTIES\b|^\s*set\s+hive\.", 2),
        ("redshift", r"\bDISTKEY\b|\bSORTKEY\b|\bDISTSTYLE\b|\bIAM_ROLE\b|\bUNLOAD\s*\(|\bENCODE\s+\w+|\bDATEADD\s*\(\s*\w+\s*,|\bGETDATE\(\)::", 2),
        ("postgres", r"::\w+|\bON\s+CONFLICT\b|\bLANGUAGE\s+plpgsql|\$\$|\bSERIAL\b|\bJSONB\b|\bNOW\(\)\s*-\s*INTERVAL\s*'|\bDISTINCT\s+ON\b|\bRETURNING\b|\bgen_random_uuid\b|\bBIGSERIAL\b|\bTIMESTAMPTZ\b", 1),
        ("mysql", r"\bENGINE\s*=|\bAUTO_INCREMENT\b|\bON\s+DUPLICATE\s+KEY\b|\bCURDATE\(\)|\bINSERT\s+IGNORE\b|\bREPLACE\s+INTO\b|\bDATE_SUB\s*\(\s*\w+\(\)\s*,\s*INTERVAL\s+\d|\bDELIMITER\b", 2),
        ("sqlite", r"\bAUTOINCREMENT\b|\bdatetime\s*\(\s*'now'|\bdate\s*\(\s*'now'|\bINSERT\s+OR\s+(REPLACE|IGNORE)\b|\bPRAGMA\b|\bjulianday\b", 3),
        ("duckdb", r"\bread_(parquet|csv|csv_auto|json)\s*\(|\bFROM\s+'[^']+\.(parquet|csv)'|\bSUMMARIZE\b|\bINSERT\s+OR\s+REPLACE\s+INTO\b.*\bBY\s+NAME\b", 3),
        ("oracle", r"\bSYSDATE\b(?!\s*\()|\bNVL2?\s*\(|\bVARCHAR2\b|\bFROM\s+DUAL\b|\.NEXTVAL\b|\bROWNUM\b|\bTO_DATE\s*\(\s*'|\bEXECUTE\s+IMMEDIATE\b", 2),
        ("trino", r"\bFROM_ISO8601|\bdate_parse\s*\(|\bpartitioned_by\s*=\s*ARRAY|\bapprox_distinct\b|\bdate_add\s*\(\s*'day'", 2),
        ("clickhouse", r"\bENGINE\s*=\s*\w*MergeTree|\btoYYYYMM\b|\btoDate\s*\(|\bgenerateUUIDv4\b|\bPREWHERE\b|\bORDER\s+BY\s+tuple\(\)", 4),
    ]
]  # fmt: skip
_LONGEST = 60_000


def guess(text: str, default: str = "databricks") -> str:
    """Return sqlglot's name of the dialect that a text is most likely written in.

    >>> guess("SELECT TOP 5 * FROM dbo.x WHERE d = GETDATE()"), guess("select 1")
    ('tsql', 'databricks')
    """
    text = text[:_LONGEST]
    scores: dict[str, int] = {}
    for name, pattern, weight in _SIGNS:
        found = sum(1 for _ in zip(pattern.finditer(text), range(5), strict=False))
        if found:
            scores[name] = found * weight
    if not scores:
        return default
    return max(scores, key=lambda name: scores[name])
