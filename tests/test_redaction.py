"""Secrets stay out of what is stored and shown; everything else stays as it was."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twice.redaction import is_secret_name, redact, redacted_command, redacted_pairs, secrets_in

SECRET = "s3cr3t/value+x"
# What URLs, headers and base64 allow, and long enough not to stand in the text around it by chance.
SECRETS = st.text("abcdefXYZ0123456789+/._~-", min_size=8, max_size=40).map(lambda text: f"q{text}q")
NAMES = st.sampled_from(
    [
        "password",
        "PGPASSWORD",
        "db_passwd",
        "pwd",
        "secret",
        "client_secret",
        "token",
        "accessToken",
        "GITHUB_TOKEN",
        "api_key",
        "apikey",
        "X-Api-Key",
        "AWS_SECRET_ACCESS_KEY",
        "AccountKey",
        "fs.s3a.secret.key",
        "sig",
        "X-Amz-Signature",
    ]
)


@pytest.mark.parametrize(
    "text",
    [
        f"GET https://api.example.com/v1/orders?token={SECRET}&page=2",
        f"https://api.example.com?api_key={SECRET}",
        f"https://account.blob.core.windows.net/c/b?sv=2024&sig={SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"{{'Authorization': 'Bearer {SECRET}'}}",
        f'{{"authorization": "Basic {SECRET}"}}',
        f"curl -H 'X-Api-Key: {SECRET}' https://api.example.com",
        f"sent Bearer {SECRET}0123456789 to the server",
        f"AWS_SECRET_ACCESS_KEY={SECRET} aws s3 ls",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET};EndpointSuffix=x",
        f"fs.s3a.secret.key={SECRET}",
        f'password = "{SECRET} with spaces"',
        json.dumps({"password": SECRET}),
        json.dumps({"message": f'connect(password="{SECRET} with spaces")'}),
        f"twice run shop --set 'api_key={SECRET} with spaces' --tag token={SECRET}",
    ],
)
def test_a_secret_is_hidden(text):
    shown = redact(text)
    assert SECRET not in shown
    assert "with spaces" not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "text",
    [
        "claimed with token=7, the run before held token 6",
        json.dumps({"token": 7, "secret": None}),
        "the key of lake.core.orders is key=order_id, partition_key=day",
        "primary_key=id sort_key=day tokens=12 design=new",
        "the password of the user is wrong: ask for a new token",
        "UPDATE leases SET token = :token WHERE secret = :secret",
        "https://api.example.com/v1/orders?page=2",
        "a bearer of bad news",
    ],
)
def test_what_is_not_a_secret_stays(text):
    assert redact(text) == text


@given(NAMES, SECRETS, st.sampled_from(["{}={}", "?a=1&{}={}&b=2", '"{}": "{}"', "'{}': '{}'", '{}="{}"', "x;{}={};y"]))
def test_the_value_of_a_secret_name_is_never_shown(name, secret, form):
    shown = redact(form.format(name, secret))
    assert secret not in shown
    assert redact(shown) == shown
    assert is_secret_name(name)


@given(NAMES, SECRETS, st.text(max_size=20), st.sampled_from(["--set", "--tag"]))
def test_a_recorded_command_shows_no_secret_and_keeps_the_rest(name, secret, more, option):
    shown = redacted_command(["twice", "run", "shop", option, f"{name}={secret}{more}", option, "tenant=acme"])
    assert shlex.split(shown) == ["twice", "run", "shop", option, f"{name}=***", option, "tenant=acme"]


@given(SECRETS)
def test_a_configured_secret_is_hidden_in_a_command_whatever_it_is_called(secret):
    known = secrets_in([("url", f"postgresql://ana:{secret.replace('/', '')}@db/x"), ("password", secret)])
    shown = redacted_command(["twice", "run", "shop", "--tag", f"note=uses {secret}"], known)
    assert secret not in shown


def test_a_short_configured_secret_is_hidden_only_as_a_whole_value():
    assert redacted_command(["twice", "run", "shop", "--set", "pin=sho"], ["sho"]) == "twice run shop --set 'pin=***'"


@given(st.text())
def test_redaction_never_fails_and_never_changes_its_own_result(text):
    assert redact(redact(text)) == redact(text)


def test_the_value_of_a_pair_is_redacted_as_text():
    assert redacted_pairs({"note": f"token={SECRET}"}) == {"note": "token=***"}
