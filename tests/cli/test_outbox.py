"""`twice outbox`: messages are sent, listed and resolved from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.store import databases
from tests.store.databases import FIRST
from tests.support.processes import until
from tests.support.provider import provider
from twice import config as configuration
from twice.loading import find_pipeline

CODE = """
from twice import Day, Overwrite, Pipeline, Table
from twice.effects import Http, Outbox

shop = Pipeline("shop", grain=Day)
mart = Table("serving.public.mart", partition=Day("d"), key=["id"], write=Overwrite(), outbox=Outbox(to=Http("{url}")))

@shop.extract(writes=mart)
def load(window):
    return []
"""


@pytest.fixture
def receiver():
    with provider() as found:
        yield found


@pytest.fixture
def shop(project, receiver, postgres_database):
    project.code(CODE.format(url=receiver.url))
    project.toml(f'[stores.serving]\ntype = "sql"\nurl = "{postgres_database}"\n')
    place = databases.postgres_place(postgres_database)
    (table,) = [step.writes for step in find_pipeline(configuration.load(), "shop").steps.values()]
    project.publish = lambda token, *rows: place.publish(place.staged(table, token, list(rows)))
    return project


def test_relay_list_and_resolve(shop, receiver):
    assert shop.call("outbox", "list", "shop").out == "no messages\n"
    assert shop.call("outbox", "relay", "shop", "--drain").out == "0 messages sent\n"
    shop.publish(1, (FIRST, 1, "a"), (FIRST, 2, "b"))
    assert [one["state"] for one in shop.call("outbox", "list", "shop", "--json").json] == ["pending", "pending"]
    receiver.trouble = ["400"]
    done = shop.call("outbox", "relay", "shop", "--drain")
    assert (done.code, done.out.splitlines()[-1]) == (1, "1 messages sent, 1 dead")
    assert "dead: HTTP Error 400" in done.out
    listed = shop.call("outbox", "list", "shop")
    assert listed.code == 1
    assert "HTTP Error 400" in listed.out
    (dead,) = shop.call("outbox", "list", "shop", "--state", "dead", "--json").json
    refused = shop.call("outbox", "resolve", "shop", dead["id"], "--because", "x")
    assert (refused.code, "give --send or --skip" in refused.err) == (2, True)
    assert "no unsent message" in shop.call("outbox", "resolve", "shop", "zz", "--skip", "--because", "x").err
    assert "or all dead ones" in shop.call("outbox", "resolve", "shop", "--send", "--because", "x").err
    assert shop.call("outbox", "resolve", "shop", dead["id"][:8], "--send", "--because", "mended").out == "1 pending\n"
    assert shop.call("outbox", "resolve", "shop", "--dead", "--send", "--because", "x", "--json").json["messages"] == 0
    again = shop.call("outbox", "relay", "shop", "--drain", "--json")
    assert (again.code, json.loads(again.out)["state"]) == (0, "sent")
    assert sorted(message["row"]["name"] for message in receiver.payloads) == ["a", "b"]


def test_the_contract_names_the_outbox(shop):
    assert "a message to Http for each changed row" in shop.call("contract", "shop").out


def test_a_pipeline_without_an_outbox_is_refused(project):
    found = project.call("outbox", "relay", "shop", "--drain")
    assert (found.code, "no table of pipeline shop has an outbox" in found.err) == (2, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_the_relay_and_say_how_to_start_it_again(shop, receiver, number):
    shop.publish(1, (FIRST, 1, "a"))
    command = [sys.executable, "-m", "twice", "outbox", "relay", "shop"]
    with subprocess.Popen(command, cwd=shop.folder, stderr=subprocess.PIPE, text=True, env=os.environ) as relay:
        until(lambda: receiver.payloads)
        relay.send_signal(number)
        assert relay.wait(20) == 130
        said = relay.stderr.read()
    assert "stopped after 1 messages" in said
    assert "twice outbox relay shop" in said
    assert shop.call("outbox", "list", "shop").out == "no messages\n"
