"""No secret is stored: not in details, not in tags."""

from __future__ import annotations

import json

from twice.ledger.db.encoding import details_text
from twice.model.scopes import Scope

SECRET = "s3cr3t/value+x"


def test_details_are_stored_without_secrets_at_any_depth():
    stored = details_text({"problems": [{"text": f"GET /v1?token={SECRET}"}], "rows": 7})
    assert json.loads(stored) == {"problems": [{"text": "GET /v1?token=***"}], "rows": 7}


def test_a_tag_with_the_name_of_a_secret_is_kept_without_its_value(sqlite_ledger):
    run = sqlite_ledger.runs.start("shop", Scope(None), tags={"api_key": SECRET, "requester": "ana"})
    assert sqlite_ledger.runs.get(run).tags == {"api_key": "***", "requester": "ana"}
