"""What dbt_project.yml and the YAML beside a model say about it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twice.audit.auditing import audit_text
from twice.audit.config import AuditConfig
from twice.audit.findings import Severity
from twice.audit.languages import plainyaml
from twice.audit.languages.dbtproject import project_config

MODEL = "select * from {{ ref('raw_orders') }} {% if is_incremental() %} where ds = '{{ var('ds') }}' {% endif %}"


def found(files):
    result = audit_text("models/orders.sql", MODEL, AuditConfig(), files.get)
    return [(one.code, one.severity) for one in result.findings]


def test_without_a_project_an_incremental_model_is_only_likely_to_append():
    assert found({}) == [("TW308", Severity.WARNING)]


def test_a_project_that_says_incremental_makes_it_certain():
    project = "name: shop\nmodels:\n  shop:\n    +materialized: incremental\n"
    assert found({"../dbt_project.yml": project}) == [("TW308", Severity.ERROR)]


def test_the_nearest_folder_wins_over_the_project():
    project = (
        "name: shop\nmodels:\n  shop:\n    +materialized: incremental\n    marts:\n      +materialized: table\n"
        "      orders:\n        +unique_key: order_id\n"
    )
    config = project_config("models/marts/orders.sql", {"../../dbt_project.yml": project}.get)
    assert {name: value.value for name, value in config.items()} == {
        "materialized": "table",
        "unique_key": "order_id",
    }


def test_the_search_leaves_a_mark_of_every_file_that_it_asked_for():
    asked = []
    project_config("models/orders.sql", asked.append)
    assert asked[0] == "../dbt_project.yml"
    assert "schema.yml" in asked


def test_lists_of_mappings_and_quotes_are_read():
    text = "models:\n- name: 'orders'\n  columns:\n    - name: id\n  config: \n    unique_key: [\"a\", b]\n- name: x\n"
    assert plainyaml.load(text) == {
        "models": [
            {"name": "orders", "columns": [{"name": "id"}], "config": {"unique_key": ["a", "b"]}},
            {"name": "x"},
        ]
    }


@given(st.text(alphabet="ab:- \n\t#'\"[]{}|>+", max_size=120))
def test_no_text_is_too_odd_for_it(text):
    assert isinstance(plainyaml.load(text), dict)
