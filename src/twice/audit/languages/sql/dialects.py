"""Which dialect a SQL text is written in, as far as its words show."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

# What users may write, and sqlglot's name for it.
DIALECTS = {
    "spark": "databricks", "databricks": "databricks", "delta": "databricks", "hive": "hive", "postgres": "postgres", "postgresql": "postgres",
    "redshift": "redshift", "snowflake": "snowflake", "bigquery": "bigquery", "tsql": "tsql", "sqlserver": "tsql", "mssql": "tsql",
    "synapse": "tsql", "duckdb": "duckdb", "sqlite": "sqlite", "mysql": "mysql", "mariadb": "mysql", "trino": "trino",
    "presto": "presto", "athena": "athena", "oracle": "oracle", "clickhouse": "clickhouse", "teradata": "teradata", "ansi": "", "generic": "",
}  # fmt: skip

# Signs of a dialect and what each weighs: a text that every match of the sign holds, in lower case and with single
# blanks, and the sign. The rarer the text, the quicker most files are read.
_SIGNS: dict[str, tuple[int, tuple[tuple[str, str], ...]]] = {
    "tsql": (3, (
        ("go", r"^\s*GO\s*$"), ("getdate", r"\bGETDATE\s*\("), ("sysdatetime", r"\bSYSDATETIME\b"), ("getutcdate", r"\bGETUTCDATE\b"),
        ("[dbo]", r"\[dbo\]"), ("dbo.", r"\bdbo\."), ("nvarchar", r"\bNVARCHAR\b"), ("declare @", r"\bDECLARE\s+@"), ("nocount", r"\bSET\s+NOCOUNT"),
        ("begin tran", r"\bBEGIN\s+TRAN\b"), ("@@", r"@@\w+"), ("newid", r"\bNEWID\s*\("), ("(nolock", r"\bWITH\s*\(NOLOCK"), ("select top", r"\bSELECT\s+TOP\b"),
        ("#", r"(FROM|INTO|TABLE|UPDATE)\s+#\w"), ("].[", r"\[\w+\]\.\[\w+\]"), ("object_id", r"\bOBJECT_ID\s*\("), ("exec", r"\bEXEC(UTE)?\s+\w"),
    )),
    "snowflake": (2, (
        ("copy into", r"\bCOPY\s+INTO\b"), ("file_format", r"\bFILE_FORMAT\s*="), ("variant", r"\bVARIANT\b"),
        ("create", r"\bCREATE\s+(OR\s+REPLACE\s+)?(STAGE|STREAM|TASK|TRANSIENT)\b"), ("sysdate()", r"\bSYSDATE\(\)"), ("uuid_string", r"\bUUID_STRING\b"),
        ("dateadd", r"\bDATEADD\s*\(\s*'?(day|hour)"), ("$", r"\$\w+:\w+"), ("metadata$", r"\bMETADATA\$"), ("system$", r"\bSYSTEM\$"),
        ("iff", r"\bIFF\s*\("), ("convert_timezone", r"\bCONVERT_TIMEZONE\b"), ("to_timestamp_ntz", r"\bTO_TIMESTAMP_NTZ\b"),
    )),
    "bigquery": (2, (
        ("`", r"`[\w-]+\.[\w-]+\.[\w$*-]+`"), ("_partition", r"\b_PARTITION(TIME|DATE)\b"), ("safe_cast", r"\bSAFE_CAST\b"),
        ("date_sub", r"\bDATE_SUB\s*\([^)]*INTERVAL"), ("generate_uuid", r"\bGENERATE_UUID\b"), ("timestamp_", r"\bTIMESTAMP_(SUB|ADD|TRUNC)\b"),
        ("function", r"\bCREATE\s+TEMP\s+FUNCTION"), ("except", r"\bEXCEPT\s*\("), ("farm_fingerprint", r"\bFARM_FINGERPRINT\b"), ("struct<", r"\bSTRUCT<"),
        ("@run_date", r"\b@run_date\b"), ("int64", r"\bINT64\b"), ("float64", r"\bFLOAT64\b"),
    )),
    "databricks": (2, (
        ("using delta", r"\bUSING\s+DELTA\b"), ("using iceberg", r"\bUSING\s+ICEBERG\b"), ("using parquet", r"\bUSING\s+PARQUET\b"), ("insert overwrite", r"\bINSERT\s+OVERWRITE\b"), ("partitioned by", r"\bPARTITIONED\s+BY\b"),
        ("date_sub", r"\bdate_sub\s*\("), ("zorder", r"\bZORDER\b"), ("optimize", r"\bOPTIMIZE\b"), ("delta.`", r"\bdelta\.`"), ("update set *", r"\bUPDATE\s+SET\s+\*"),
        ("collect_list", r"\bcollect_list\b"), ("lateral", r"\bLATERAL\s+VIEW\b"), ("replace where", r"\bREPLACE\s+WHERE\b"),
        ("view", r"\bCREATE\s+OR\s+REPLACE\s+TEMP(ORARY)?\s+VIEW\b"), ("distribute", r"\bDISTRIBUTE\s+BY\b"),
        ("monotonically_increasing_id", r"\bmonotonically_increasing_id\b"),
    )),
    "hive": (2, (
        ("stored as", r"\bSTORED\s+AS\b"), ("row format", r"\bROW\s+FORMAT\b"), ("hiveconf", r"\bhiveconf\b"), ("msck", r"\bMSCK\s+REPAIR\b"),
        ("load data", r"\bLOAD\s+DATA\b"), ("hivevar", r"\bhivevar\b"), ("tblproperties", r"\bTBLPROPERTIES\b"), ("hive.", r"^\s*set\s+hive\."),
    )),
    "redshift": (2, (
        ("distkey", r"\bDISTKEY\b"), ("sortkey", r"\bSORTKEY\b"), ("diststyle", r"\bDISTSTYLE\b"), ("iam_role", r"\bIAM_ROLE\b"),
        ("unload", r"\bUNLOAD\s*\("), ("encode", r"\bENCODE\s+\w+"), ("dateadd", r"\bDATEADD\s*\(\s*\w+\s*,"), ("getdate()::", r"\bGETDATE\(\)::"),
    )),
    "postgres": (1, (
        ("::", r"::\w+"), ("on conflict", r"\bON\s+CONFLICT\b"), ("plpgsql", r"\bLANGUAGE\s+plpgsql"), ("$$", r"\$\$"), ("serial", r"\bSERIAL\b"),
        ("jsonb", r"\bJSONB\b"), ("now()", r"\bNOW\(\)\s*-\s*INTERVAL\s*'"), ("distinct on", r"\bDISTINCT\s+ON\b"), ("returning", r"\bRETURNING\b"),
        ("gen_random_uuid", r"\bgen_random_uuid\b"), ("bigserial", r"\bBIGSERIAL\b"), ("timestamptz", r"\bTIMESTAMPTZ\b"),
    )),
    "mysql": (2, (
        ("engine", r"\bENGINE\s*="), ("auto_increment", r"\bAUTO_INCREMENT\b"), ("duplicate", r"\bON\s+DUPLICATE\s+KEY\b"), ("curdate()", r"\bCURDATE\(\)"),
        ("insert ignore", r"\bINSERT\s+IGNORE\b"), ("replace into", r"\bREPLACE\s+INTO\b"), ("date_sub", r"\bDATE_SUB\s*\(\s*\w+\(\)\s*,\s*INTERVAL\s+\d"),
        ("delimiter", r"\bDELIMITER\b"),
    )),
    "sqlite": (3, (
        ("autoincrement", r"\bAUTOINCREMENT\b"), ("'now'", r"\bdatetime\s*\(\s*'now'"), ("'now'", r"\bdate\s*\(\s*'now'"),
        ("insert or", r"\bINSERT\s+OR\s+(REPLACE|IGNORE)\b"), ("pragma", r"\bPRAGMA\b"), ("julianday", r"\bjulianday\b"),
    )),
    "duckdb": (3, (
        ("read_", r"\bread_(parquet|csv|csv_auto|json)\s*\("), ("from '", r"\bFROM\s+'[^']+\.(parquet|csv)'"), ("summarize", r"\bSUMMARIZE\b"),
        ("by name", r"\bINSERT\s+OR\s+REPLACE\s+INTO\b.*\bBY\s+NAME\b"),
    )),
    "oracle": (2, (
        ("sysdate", r"\bSYSDATE\b(?!\s*\()"), ("nvl", r"\bNVL2?\s*\("), ("varchar2", r"\bVARCHAR2\b"), ("dual", r"\bFROM\s+DUAL\b"), (".nextval", r"\.NEXTVAL\b"),
        ("rownum", r"\bROWNUM\b"), ("to_date", r"\bTO_DATE\s*\(\s*'"), ("execute immediate", r"\bEXECUTE\s+IMMEDIATE\b"),
        ("package", r"\bPACKAGE\s+(BODY\s+)?\w+"), ("dbms_", r"\bDBMS_\w+\.\w+"), ("sql%", r"\bSQL%ROWCOUNT\b"),
        ("procedure", r"\bPROCEDURE\s+[\w.\"]+\s*(\([^)]*\))?\s*(RETURN\s+\w+\s+)?IS\b"),
        ("function", r"\bFUNCTION\s+[\w.\"]+\s*(\([^)]*\))?\s*(RETURN\s+\w+\s+)?IS\b"),
    )),
    "trino": (2, (
        ("from_iso8601", r"\bFROM_ISO8601"), ("date_parse", r"\bdate_parse\s*\("), ("partitioned_by", r"\bpartitioned_by\s*=\s*ARRAY"),
        ("approx_distinct", r"\bapprox_distinct\b"), ("'day'", r"\bdate_add\s*\(\s*'day'"),
    )),
    "clickhouse": (4, (
        ("mergetree", r"\bENGINE\s*=\s*\w*MergeTree"), ("toyyyymm", r"\btoYYYYMM\b"), ("todate", r"\btoDate\s*\("), ("generateuuidv4", r"\bgenerateUUIDv4\b"),
        ("prewhere", r"\bPREWHERE\b"), ("tuple()", r"\bORDER\s+BY\s+tuple\(\)"),
    )),
}  # fmt: skip
_LONGEST = 60_000
_MOST = 5


def guess(text: str, default: str = "databricks") -> str:
    """Return sqlglot's name of the dialect that a text is most likely written in.

    >>> guess("SELECT TOP 5 * FROM dbo.x WHERE d = GETDATE()"), guess("select 1")
    ('tsql', 'databricks')
    """
    text = text[:_LONGEST]
    lowered = " ".join(text.lower().split())
    best, most = default, 0
    for name, (weight, signs) in _SIGNS.items():
        # Most signs are nowhere in a text, and to search for a word is much quicker than to match a pattern.
        likely = tuple(pattern for word, pattern in signs if word in lowered)
        if not likely:
            continue
        score = weight * sum(1 for _ in islice(_any_of(likely).finditer(text), _MOST))
        if score > most:
            best, most = name, score
    return best


@lru_cache(maxsize=512)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)
