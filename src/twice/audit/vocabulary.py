"""Names that mean something: audit columns, arrival columns, scratch tables, keys, time-like columns."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

_AUDIT = re.compile(
    r"""^_*(
      (dwh?|dw|etl|elt|meta|sys|audit|record|row|rec|batch|job|run|md|x)_+\w*(date|time|timestamp|ts|at|dt|dttm|day|on)
    | (\w+_)?(load|loaded|ingest|ingested|ingestion|insert|inserted|insertion|process|processed|processing|refresh|refreshed
        |extract|extracted|extraction|sync|synced|synchronized|fivetran_synced|airbyte_extracted|dbt_updated|dbt_loaded|imported|import
        |materialized|computed|calculated|generated|snapshotted|captured|archived|published|replicated|staged|execution|exec|run|built
        |migrated|downloaded|fetched|scraped|crawled|collected|recorded|logged|written|write|persisted|exported|export|uploaded|retrieved|pulled|polled|queried|checked|locked|executed|evaluated|validated|verified|scanned|profiled|measured|parsed|normalized|normalised|cleaned|cleansed|enriched|anonymized|anonymised|pseudonymized|merged|deduplicated|scored|predicted|embedded|vectorized|classified|aggregated|converted|harmonized|standardized|audit|etl|elt|dwh?|job|batch)
      _*(at|on|ts|dt|dttm|date|time|timestamp|datetime|dts|date_time|time_stamp|utc|ms|tstamp|tms)(_utc|_ts|_ms|_at|_time)?
    | (created|updated|modified|changed|last_modified|last_updated|last_update|last_refresh|last_refreshed|last_changed|last_seen
        |insert|update|create|creation|modification|modify|upd|ins|crt|row_created|row_updated|record_created|record_updated)
      _*(at|on|ts|dt|dttm|date|time|timestamp|datetime|date_time|time_stamp|by_date|utc|tstamp)?(_utc|_ts)?
    | createdate|updatedate|createddate|updateddate|modifieddate|insertdate|loaddate|loaddatetime|loadtime|loadts|loadtimestamp
    | insertedat|createdat|updatedat|loadedat|processedat|ingestedat|modifiedat|lastmodified|lastupdated|lastupdatedate|createdon|updatedon|modifiedon
    | (creation|modification|update|insert|processing|load|ingest|ingestion|refresh|execution|etl)(date|time|timestamp|ts|at|on|datetime)
    | (dt|date|ts|time|timestamp|data|dthr|dh|fecha|fec|fch|datum)_(de_)?(load|loading|loaded|ingest\w*|insert\w*|insercao|insercion|carga|proces\w*
        |creat\w*|creacion|criacao|updat\w*|atualizacao|actualizacion|modif\w*|extract\w*|extrac\w*|etl|record\w*|registro|added|maj|chargement)
    | date(created|updated|inserted|loaded|modified|added)|(last)?(updated|modified|created|inserted|loaded)(date|time|datetime|on|at)|row(inserted|updated|created)
    | (dwh?|etl|stg|gold|silver|bronze|raw|mart)_?(load|insert|insert(ed)?|update|updated|create|created|process|processed|ingest|ingested)_?(date|time|dt|ts|at|timestamp|datetime)
    | (\w+_)?(load|ins|insert|upd|update|crt|create|proc|process)_(tmstp|tmstmp|tmst|tstmp|tmsp|tms)|aud_\w+_(ts|dt|tms|date)
    | (meta|dwh?|edw|warehouse|lake|system|sys|record|rec|row)_(created|loaded|inserted|updated|ingested|modified)
    | gmt_(create|modified)|(upsert|updt|last_upd|transform|transformed|scrape|fetch|crawl|saved|stored|indexed|added)_(at|on|ts|dt|date|time|timestamp)
    | refresh(ed)?|fetched|scraped|ingested|inserted|load_?(id)?_?ts|as_of_load|ldts|load_dts|dts|asof_ts|tech_\w+|dwh_\w+|etl_\w+|_\w+ed_(at|ts|time|timestamp|date)|quarantined?_(at|ts|time|timestamp|date)|_\w*loaded\w*|_\w*synced\w*|_\w*ingest\w*
    )$""",
    re.VERBOSE | re.IGNORECASE,
)
_ARRIVAL = re.compile(
    r"""^_*(
      (\w+_)?(load|loaded|ingest|ingested|ingestion|arrival|arrived|received|insert|inserted|processed|processing|extracted|synced|landed|landing)
        _*(at|on|ts|dt|dttm|date|time|timestamp|datetime|day|hour)
    | (dwh?|etl|elt)_+\w*(date|time|timestamp|ts|at|dt)
    | partition(time|date)|fivetran_synced|airbyte_emitted_at|airbyte_extracted_at|sdc_(batched|received|extracted)_at|dlt_load\w*
    | ingestion_?(date|time|ts)|load_?(date|ts|time|dts|dt)|ldts|file_modification_time|modification_?time
    )$""",
    re.VERBOSE | re.IGNORECASE,
)
_SCRATCH = re.compile(
    r"^(#.*|@.*|(te?mp(?!_(readings?|sensors?|measurements?|hourly|daily|observations?)$)|scratch|stg_tmp|_tmp)[_\d].*|.*_(te?mp|scratch)(_\d+|_table)?|te?mp|scratch"
    r"|.*(audit|etl|job|run|batch|process|load|pipeline|error|execution|event)_?(log|logs|audit|history_log|run_log)s?"
    r"|log|logs|logs?_(etl|elt|runs?|jobs?|loads?|batch(es)?|process(es)?|pipelines?|errors?|executions?)|.*(?<!_for)_audit|audit_?trail|.*_(logs?|errors)|dq_.*results?|data_quality_.*|job_runs?|etl_runs?|run_history|pipeline_runs?|.*_run_history)$",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"^(\w+_)?(id|key|sk|pk|hk|hkey|wid|hash|uuid|guid|uid|nk|bk|surrogate_key|row_?id|rowkey|row_key|hash_?key|pk_\w+|sk_\w+|code_key)$"
    r"|^(id|key|sk|pk|hk)_\w+$|^\w+(Id|ID|Key|SK|Sk|UUID|Uuid)$|^(id|uuid|guid|rowid|hashkey|surrogatekey|row_num_key)$",
)
# CustomerId arrives as customerid.
_GLUED_KEY = re.compile(
    r"^[a-z]{3,}(key|guid|uuid|rowid)$|^[a-z]{4,}(?<!val)(?<!inval)(?<!pa)(?<!unpa)(?<!andro)(?<!ra)(?<!gr)(?<!hybr)(?<!av)(?<!sol)(?<!b)(?<!cov)id$"
)
_TIME = re.compile(
    r"(^|_)(date|time|timestamp|datetime|ts|dt|dttm|at|on|day|hour|month|week|year|dts|period|created|updated|modified)(_|$)"
    r"|(date|time|timestamp|at)$|^(ds|dt|ts)$|^(event|order|sale|trade|business|posting|value|as_of|report|partition)_?(date|dt|day)",
    re.IGNORECASE,
)
_DAY = re.compile(
    r"(^|_)(date|day|dt|ds|month|week|year|period|yyyymmdd|datekey|date_key|date_id|ymd)(_|$|id$|key$)|date$|^(ds|dt)$",
    re.IGNORECASE,
)
_INSTANT = re.compile(
    r"(^|_)(timestamp|datetime|ts|at|time|tms|tstamp|dttm|created|updated|modified|instant|epoch|hora|heure|uhrzeit)(_|$|utc$)|(timestamp|datetime|_at|time)$|[a-z](At|Ts|Time|Timestamp)$",
)  # fmt: skip
_MUTABLE = re.compile(
    r"^(\w+_)?(e_?mail(_address)?|phone(_number|_no)?|mobile(_number)?|telephone|address(_line_?\d)?|street|city|zip(_code)?"
    r"|(first|last|full|sur|given|family|middle|user|display|customer|company|employee|contact|product|account|nick)_?name|name|title|status)$",
    re.IGNORECASE,
)


# What a load does to a row, and the words for the moment, in the languages that jobs are written in.
_DONE = frozenset(
    {
        "load", "loaded", "loading", "insert", "inserted", "insertion", "insercao", "insercion", "create",
        "created", "creation", "criacao", "creacion", "update", "updated", "updating", "atualizacao",
        "actualizacion", "upd", "updt", "modify", "modified", "modification", "modificacao", "modificacion",
        "alteracao", "process", "processed", "processing", "ingest", "ingested", "ingestion", "ingestao",
        "refresh", "refreshed", "sync", "synced", "extract", "extracted", "extraction", "import", "imported",
        "etl", "elt", "dbt", "dwh", "dw", "edw", "batch", "run", "exec", "executed", "execution", "record",
        "recorded", "registro", "cadastro", "carga", "chargement", "maj", "erstellt", "angelegt", "geaendert",
        "aktualisiert", "geladen", "verarbeitet", "verarbeitung", "eingefuegt", "importiert", "ladezeit", "procesado", "procesada", "proceso",
        "procesamiento", "processamento", "processado", "cargado", "cargada", "carregado", "carregamento", "insertado", "inserido",
        "actualizado", "atualizado", "creado", "criado", "modificado", "ingesta", "ingestado", "extraccion", "extracao", "extraido",
        "chargee", "traite", "traitement", "insere", "cree", "creee", "modifie", "integre", "verwerkt",
        "caricato", "caricamento", "elaborazione", "elaborato", "upsert", "upserted", "merged", "written", "stored", "saved",
    }
)  # fmt: skip
_MOMENT = frozenset(
    {
        "at", "ts", "dt", "dts", "dttm", "date", "time", "timestamp", "datetime", "on", "stamp", "tstamp",
        "tms", "tmstp", "tmst", "tmstmp", "tstmp", "tmsp", "dtm", "dtime", "utc", "data", "fecha", "hora", "datum", "zeit", "heure", "day", "momento", "zeitpunkt", "zeitstempel", "horodatage", "marca",
    }
)  # fmt: skip
_AROUND = frozenset(
    {
        "last", "first", "row", "rec", "record", "sys", "system", "src", "tech", "meta", "audit", "batch",
        "dim", "fact", "stg", "raw", "tbl", "db", "is", "local", "utc",
    }
)  # fmt: skip
# Said after the verb: verarbeitet_am, chargé_le; too short to be looked for inside words.
_WHEN = frozenset({"am", "um", "le", "em", "el", "il", "op"})
_CHARGED = re.compile(r"^_*charge_le$|^(date|dt|horodatage)_charge$", re.IGNORECASE)
_WORDS = re.compile("|".join(sorted(_DONE | _MOMENT | _AROUND, key=lambda word: (-len(word), word))))
_PARTICIPLES = frozenset({"created", "updated", "inserted", "loaded", "modified", "ingested", "processed"})
_LONGEST_PREFIX = 3


def _words(name: str) -> list[str]:
    """Cut a name at underscores, and glued words where all of it is known: sdtdatecreated -> sdt date created."""
    found: list[str] = []
    for part in name.lower().strip("_").split("_"):
        glued = _WORDS.findall(part)
        rest = _WORDS.sub("", part)
        begins = part.startswith(rest) if rest else True
        found.extend([rest, *glued] if glued and len(rest) <= _LONGEST_PREFIX and begins else [part])
    return [word for word in found if word]


def _is_load_moment(name: str) -> bool:
    """Return whether a name is made of a load's verb and a moment, side by side and in any order: az_update_ts."""
    if not name.isascii():
        name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    if _CHARGED.match(name):  # alone it is a fee
        return True
    words = _words(name)
    for index, (one, other) in enumerate(pairwise(words)):
        if (one in _DONE and (other in _MOMENT or other in _WHEN)) or (one in _MOMENT and other in _DONE):
            rest = [*words[:index], *words[index + 2 :]]
            if one in _PARTICIPLES:  # order_created_at: whatever it is, the job says when the row was made
                return True
            return all(
                word in _AROUND or word in _DONE or word in _MOMENT or len(word) <= _LONGEST_PREFIX for word in rest
            )
    return False


@lru_cache(maxsize=4096)
def is_audit_column(name: str) -> bool:
    """Return whether a column says when a row was loaded, not when something happened.

    >>> [is_audit_column(name) for name in ("loaded_at", "etl_ts", "dtdatecreated", "order_date", "event_time")]
    [True, True, True, False, False]
    """
    return bool(_AUDIT.match(name)) or _is_load_moment(name)


@lru_cache(maxsize=4096)
def is_arrival_column(name: str) -> bool:
    """Return whether a column says when a row arrived: ingestion_date, loaded_at, _PARTITIONTIME."""
    return bool(_ARRIVAL.match(name))


@lru_cache(maxsize=4096)
def is_scratch_name(name: str) -> bool:
    """Return whether a table is temporary, or a log that is meant to grow, by its name."""
    return bool(_SCRATCH.match(name.strip('"`[]')))


@lru_cache(maxsize=4096)
def is_key_column(name: str) -> bool:
    """Return whether a column identifies rows, by its name: order_id, order_sk, row_key, uuid."""
    return bool(_KEY.match(name)) or bool(_GLUED_KEY.match(name.lower()))


@lru_cache(maxsize=4096)
def is_time_column(name: str) -> bool:
    """Return whether a column holds a date or an instant, by its name."""
    return bool(_TIME.search(name)) or bool(_INSTANT.search(name))


@lru_cache(maxsize=4096)
def is_day_column(name: str) -> bool:
    """Return whether a column holds a date rather than an instant, by its name: order_date, ds, period."""
    return bool(_DAY.search(name)) and not re.search(
        r"time|_at$|_ts$|timestamp|hora|heure|uhrzeit", name, re.IGNORECASE
    )


@lru_cache(maxsize=4096)
def is_instant_column(name: str) -> bool:
    """Return whether a column holds an instant, by its name: created_at, event_ts, order_time."""
    return bool(_INSTANT.search(name)) and not is_day_column(name)


@lru_cache(maxsize=4096)
def is_mutable_column(name: str) -> bool:
    """Return whether a column holds what people change: email, name, phone, address."""
    return bool(_MUTABLE.match(name))
