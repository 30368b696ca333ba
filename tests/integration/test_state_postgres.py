"""The state in PostgreSQL when connections are lost, owners are cut off, many services start at
once, or hosts disagree about the time."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from devservers import PgbouncerServer, PostgresServer, Relay, SettableClock
from devservers.processes import wait_until
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.errors import StateAway, StateError
from manyhands.shared.crawl.store.model import LeaseLost, NewCrawl, Settled
from manyhands.shared.crawl.store.postgres import database
from manyhands.shared.crawl.store.postgres.place import parse_place
from manyhands.shared.crawl.store.postgres.store import FAR_S, FAR_WRITERS, PostgresStore
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.errors import ConfigError
from tests.support.imports import ROOT
from tests.support.postgres_relay import Fault, PostgresRelay
from tests.support.state_content import NOW, urls_of

CRAWL = 1
SPEC = CrawlSpec(contact="me@example.org")
SERVICES = 10
LEASE_LATE_S = 2.0
WAITING_FOR_LOCKS = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
STOPS_IN_A_TRANSACTION = """
import os, signal, sys
from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.shared.crawl.store.postgres.store import PostgresStore
from tests.support.state_content import NOW, urls_of
shard = PostgresStore([sys.argv[1]]).open_shard(1, 0, 1, NOW)
def admit():
    shard.admit(1, urls_of("example.com", 5), NOW)
    print("in it", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    shard.run(admit)
except LeaseLost:
    print("lost", flush=True)
"""

Open = Callable[..., PostgresStore]


@pytest.fixture
def schema() -> str:
    return f"test_{secrets.token_hex(8)}"


@pytest.fixture
def open_store(postgres: PostgresServer, schema: str) -> Iterator[Open]:
    """Stores of one and the same state, straight to the server or by way of a port."""
    with contextlib.ExitStack() as opened:

        def open_store(port: int | None = None) -> PostgresStore:
            url = postgres.url_at(port or postgres.port)
            store = PostgresStore([f"{url}?schema={schema}"])
            opened.callback(store.close)
            store.open_control()
            return store

        yield open_store


@pytest.fixture
def relay(postgres: PostgresServer) -> Iterator[PostgresRelay]:
    with contextlib.closing(PostgresRelay(postgres.port)) as relay:
        yield relay


class Work:
    """A transaction's content that counts how often it was done. State: that."""

    def __init__(self, store: ShardStore) -> None:
        self.store = store
        self.done = 0

    def __call__(self) -> int:
        self.done += 1
        admitted = self.store.admit(CRAWL, urls_of("example.com", 5), NOW)
        self.store.count(CRAWL, {"links": 7})
        self.store.send(CRAWL, [(3, b"[]")])
        return admitted.new


def happened_once(store: ShardStore) -> None:
    counters = store.counters(CRAWL)
    assert (counters["admitted"], counters["links"], counters["outgoing"]) == (10, 7, 1)
    assert len(store.urls(CRAWL, UrlState.QUEUED, 0, 100)) == 10
    assert [batch.sequence for batch in store.outgoing({}, 10)] == [1]


def test_a_database_that_is_far_away_is_found_to_be(postgres: PostgresServer, open_store: Open):
    with Relay(postgres.port, 3 * FAR_S * 1000) as relay:
        store = open_store(relay.port)
        assert store.databases[0].round_trip_s >= 2 * FAR_S
        assert store.writers == FAR_WRITERS


# COMMITs that were not answered


def test_a_commit_whose_answer_is_lost_is_not_repeated(open_store, relay):
    store = open_store(relay.port).open_shard(1, 0, 1, NOW)
    work = Work(store)
    relay.fault = Fault.ANSWER_LOST
    assert store.run(work) == 10
    assert (relay.faults, work.done) == (1, 1)
    happened_once(store)


def test_a_commit_that_is_lost_on_its_way_is_repeated(open_store, relay):
    store = open_store(relay.port).open_shard(1, 0, 1, NOW)
    work = Work(store)
    relay.fault = Fault.REQUEST_LOST
    assert store.run(work) == 10
    assert (relay.faults, work.done) == (1, 2)
    happened_once(store)


@pytest.mark.parametrize("late_s", [0.1, 1.0])
def test_a_commit_that_is_still_on_its_way_counts_once(open_store, relay, late_s):
    """Waited for if it is soon there; else its connection is ended, and it has no effect."""
    store = open_store(relay.port).open_shard(1, 0, 1, NOW)
    work = Work(store)
    relay.late_s = late_s
    relay.fault = Fault.REQUEST_LATE
    assert store.run(work) == 10
    assert relay.faults == 1
    time.sleep(late_s)
    happened_once(store)


def test_whatever_is_lost_everything_counts_once(open_store, relay):
    store = open_store(relay.port).open_shard(1, 0, 1, NOW)
    faults = [*Fault, None]
    relay.late_s = 0.05
    urls = urls_of("example.com", 20)
    for place in range(len(urls)):
        relay.fault = faults[place % len(faults)]

        def work(place: int = place) -> None:
            store.admit(CRAWL, urls[place : place + 1], NOW)
            store.count(CRAWL, {"links": 1})
            store.send(CRAWL, [(1 + place % 2, b"%d" % place)])

        store.run(work)
    counters = store.counters(CRAWL)
    assert relay.faults == 30
    assert counters["admitted"] == counters["queued"] == counters["links"] == 40
    assert counters["changes"] == 40
    sent = [(batch.target, batch.sequence, int(batch.payload)) for batch in store.outgoing({}, 99)]
    assert sent == [
        (1 + place % 2, 1 + place // 2, place) for place in (*range(0, 40, 2), *range(1, 40, 2))
    ]


def test_a_transaction_that_is_cut_in_its_middle_is_repeated(open_store, relay):
    store = open_store(relay.port).open_shard(1, 0, 1, NOW)
    work = Work(store)

    def cut_once() -> int:
        if not work.done:
            relay.cut()
        return work()

    assert store.run(cut_once) == 10
    assert work.done == 2
    happened_once(store)


def test_an_answer_that_is_lost_to_a_takeover_is_the_next_owners_affair(open_store, relay):
    old = open_store(relay.port).open_shard(1, 0, 1, NOW)
    other = open_store()

    def overtaken() -> None:
        old.count(CRAWL, {"links": 1})
        relay.cut()
        other.open_shard(1, 0, 2, NOW)

    with pytest.raises(LeaseLost):
        old.run(overtaken)
    assert other.open_shard(1, 0, 3, NOW).counters(CRAWL)["links"] == 0


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.REQUEST_LOST])
def test_a_crawl_without_a_key_is_created_once_whatever_is_lost(open_store, relay, fault):
    control = open_store(relay.port).open_control()
    relay.fault = fault
    crawl, is_new = control.create_crawl(NewCrawl(SPEC, None, b"f"), NOW)
    assert (relay.faults, is_new) == (1, True)
    assert [one.id for one in control.live_crawls()] == [crawl.id]
    other, is_new = control.create_crawl(NewCrawl(SPEC, None, b"f"), NOW)
    assert is_new
    assert other.id != crawl.id


def test_pages_whose_grant_or_return_is_in_doubt_are_never_too_many(open_store, relay):
    control = open_store(relay.port).open_control()
    crawl, _ = control.create_crawl(NewCrawl(SPEC, None, b"f"), NOW)
    assert control.grant_pages(crawl.id, "a", 6, 10) == 6
    relay.fault = Fault.ANSWER_LOST
    assert control.grant_pages(crawl.id, "a", 2, 10) == 0
    relay.fault = Fault.ANSWER_LOST
    control.return_pages(crawl.id, "a", 3)
    assert relay.faults == 2
    assert control.granted_pages(crawl.id) == 5


# Owners that are cut off


def test_a_takeover_ends_the_open_transaction_of_an_owner_that_was_cut_off(open_store, relay):
    old = open_store(relay.port).open_shard(1, 0, 1, NOW)
    with pytest.raises((LeaseLost, StateAway)), old.transaction():
        old.admit(CRAWL, urls_of("example.com", 5), NOW)
        relay.cut_off()
        before_s = time.monotonic()
        new = open_store().open_shard(1, 0, 2, NOW)
        assert time.monotonic() - before_s < LEASE_LATE_S
        relay.cut()
    assert new.counters(CRAWL)["admitted"] == 0


def test_a_takeover_waits_for_a_transaction_that_ends_soon(open_store):
    store = open_store()
    old = store.open_shard(1, 0, 1, NOW)
    is_inside, may_end = threading.Event(), threading.Event()

    def write() -> None:
        with old.transaction():
            old.admit(CRAWL, urls_of("example.com", 5), NOW)
            is_inside.set()
            may_end.wait()

    with ThreadPoolExecutor(2) as threads:
        writing = threads.submit(write)
        is_inside.wait()
        taking = threads.submit(open_store().open_shard, 1, 0, 2, NOW)
        time.sleep(0.1)
        assert not taking.done()
        may_end.set()
        writing.result()
        assert taking.result().counters(CRAWL)["admitted"] == 10
    with pytest.raises(LeaseLost), old.transaction():
        pass


def test_a_transaction_that_waited_for_a_takeover_sees_its_epoch(postgres, schema, open_store):
    """Lock and epoch in one statement would show the epoch of before the wait."""
    old = open_store().open_shard(1, 0, 1, NOW)
    place = parse_place(f"{postgres.url}?schema={schema}")
    with ThreadPoolExecutor(1) as threads, psycopg.connect(place.conninfo) as taking_over:
        taking_over.execute("SELECT pg_advisory_xact_lock(%s)", (place.lock_key("shard", 1, 0),))
        writing = threads.submit(old.run, lambda: old.count(CRAWL, {"links": 1}))
        with psycopg.connect(place.conninfo, autocommit=True) as watching:
            while not watching.execute(WAITING_FOR_LOCKS).fetchall():
                time.sleep(0.01)
        taking_over.execute(f"UPDATE {schema}.shards SET epoch = 2")
        taking_over.commit()
        with pytest.raises(LeaseLost):
            writing.result()
    assert open_store().open_shard(1, 0, 3, NOW).counters(CRAWL)["links"] == 0


def test_an_owner_that_was_stopped_in_a_transaction_has_lost_it(postgres, schema, open_store):
    store = open_store()
    owner = subprocess.Popen(
        [sys.executable, "-c", STOPS_IN_A_TRANSACTION, f"{postgres.url}?schema={schema}"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "in it\n"
        before_s = time.monotonic()
        new = store.open_shard(1, 0, 2, NOW)
        assert time.monotonic() - before_s < LEASE_LATE_S
        os.kill(owner.pid, signal.SIGCONT)
        assert owner.stdout.readline() == "lost\n"
    finally:
        owner.kill()
        owner.communicate()
    assert new.counters(CRAWL)["admitted"] == 0


# Servers that go and come


def test_a_server_that_was_killed_is_found_again(postgres, open_store, monkeypatch):
    monkeypatch.setattr(database, "RECONNECT_S", 0.2)
    # Nobody asks again sooner, and the server may be back within the second that this is.
    monkeypatch.setattr(database, "LONGEST_WAIT_S", 0.01)
    store = open_store()
    shard = store.open_shard(1, 0, 1, NOW)
    shard.run(Work(shard))
    postgres.kill()
    with pytest.raises(StateAway):
        store.open_control().version()
    postgres.start()
    happened_once(shard)
    with shard.transaction():
        shard.count(CRAWL, {"links": 1})
    assert shard.counters(CRAWL)["links"] == 8


def test_a_server_that_does_not_answer_counts_as_away_and_is_asked_again(
    open_store, relay, monkeypatch
):
    monkeypatch.setattr(database, "SILENT_S", 0.2)
    monkeypatch.setattr(database, "ANSWER_S", 1.0)
    store = open_store(relay.port)
    shard = store.open_shard(1, 0, 1, NOW)
    work = Work(shard)
    [absence] = store.absences
    mending = threading.Timer(0.5, relay.mend)

    def silent_once() -> int:
        if not work.done:
            relay.cut_off()
            mending.start()
        return work()

    assert shard.run(silent_once) == 10
    assert work.done == 2
    assert "does not answer" in absence.why
    happened_once(shard)
    assert wait_until(lambda: store.open_reader(1, 0) and absence.since is None, 10.0)


def test_a_statement_that_reads_a_whole_shard_may_take_its_time(postgres, monkeypatch):
    monkeypatch.setattr(database, "SILENT_S", 0.2)
    monkeypatch.setattr(database, "ANSWER_S", 0.5)
    place = parse_place(postgres.url)
    patient = database.Database(place, is_patient=True)
    with contextlib.closing(patient):
        assert patient.value("SELECT 1 FROM pg_sleep(1)") == 1
    assert patient.absence.why == ""
    with contextlib.closing(database.Database(place)) as other, pytest.raises(StateAway):
        other.value("SELECT 1 FROM pg_sleep(1)")


def test_a_commit_in_doubt_is_cleared_up_however_long_the_server_is_away(
    open_store, relay, monkeypatch
):
    monkeypatch.setattr(database, "RECONNECT_S", 0.2)
    store = open_store(relay.port)
    shard = store.open_shard(1, 0, 1, NOW)
    work = Work(shard)
    [absence] = store.absences
    absence.is_waited_for = True
    relay.fault = Fault.ANSWER_LOST
    relay.is_refusing = True
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(shard.run, work)
        while not absence.lasts_s(time.monotonic()) > 1.0:
            time.sleep(0.01)
        assert not running.done()
        relay.is_refusing = False
        assert running.result() == 10
    assert (relay.faults, work.done) == (1, 1)
    happened_once(shard)


# Starts


def test_ten_services_that_start_at_once_make_one_state(postgres, schema):
    url = f"{postgres.url}?schema={schema}"
    together = threading.Barrier(SERVICES)

    def start(shard: int) -> str:
        with contextlib.closing(PostgresStore([url])) as store:
            together.wait()
            control = store.open_control()
            assert control.layout(64).shards == 64
            store.open_shard(1, shard, 1, NOW)
            return control.tag()

    with ThreadPoolExecutor(SERVICES) as threads:
        assert len(set(threads.map(start, range(SERVICES)))) == 1


def test_a_role_that_owns_no_more_than_its_schema_suffices(postgres, schema):
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {schema} LOGIN PASSWORD 'of-its-own'")
        admin.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {schema}")
    rest = postgres.url.rpartition("@")[2]
    url = f"postgresql://{schema}:of-its-own@{rest}?schema={schema}"
    with contextlib.closing(PostgresStore([url])) as store:
        store.open_control()
        old = store.open_shard(1, 0, 1, NOW)
        # It may end its own connections, too.
        with pytest.raises(StateAway), old.transaction():
            new = store.open_shard(1, 0, 2, NOW)
            old.counters(CRAWL)
        assert new.counters(CRAWL)["admitted"] == 0


def test_shards_are_spread_over_the_databases_in_their_order(postgres, schema):
    urls = [f"{postgres.url}?schema={schema}_{part}" for part in range(2)]
    with contextlib.closing(PostgresStore(urls)) as store:
        tag = store.open_control().tag()
        shard = store.open_shard(1, 1, 1, NOW)
        shard.run(Work(shard))
        reader = store.readers().get(1, 1)
        assert reader is not None
        assert reader.counters(CRAWL)["admitted"] == 10
    with psycopg.connect(postgres.url) as admin:
        found = admin.execute(f"SELECT shard FROM {schema}_1.shards").fetchall()
        assert found == [(1,)]
    for wrong in (urls[::-1], urls[:1], [urls[0], f"{postgres.url}?schema={schema}_2"][::-1]):
        with (
            contextlib.closing(PostgresStore(wrong)) as store,
            pytest.raises(StateError, match="in the order in which"),
        ):
            store.open_control()
    with contextlib.closing(PostgresStore(urls)) as store:
        assert store.open_control().tag() == tag


def test_a_state_of_a_later_release_is_refused(postgres, schema, open_store):
    open_store()
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute(f"UPDATE {schema}.facts SET value = 99 WHERE name = 'tables'")
    with pytest.raises(StateError, match=r"later release \(version 99"):
        open_store()


# A pooler in transaction mode


@pytest.mark.pgbouncer
def test_nothing_depends_on_a_session(postgres, schema):
    """More writers than connections to the server, which are anybody's after each transaction."""

    def write(store: PostgresStore, number: int) -> None:
        shard = store.open_shard(1, number, 1, NOW)
        for page in range(20):
            with shard.transaction():
                shard.admit(CRAWL, urls_of("example.com", page + 1), NOW)
                for domain in shard.take_domains(NOW, 10):
                    claimed = shard.claim(domain.origins[0].id, CRAWL, NOW, 1)
                    shard.settle([Settled(one.id, UrlState.DONE, 200) for one in claimed], NOW)
                    shard.put_domain(domain.id, NOW, 1.0)

    with contextlib.ExitStack() as opened:
        pooler = opened.enter_context(PgbouncerServer(postgres, connections=2))
        url = f"{pooler.url}?schema={schema}"
        stores = [opened.enter_context(contextlib.closing(PostgresStore([url]))) for _ in range(2)]
        stores[0].open_control()
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(lambda number: write(stores[number % 2], number), range(6)))
        for number in range(6):
            shard = stores[0].open_shard(1, number, 2, NOW)
            assert shard.counters(CRAWL)["admitted"] == 40
            assert shard.counters(CRAWL)["done"] == 20
        # Nothing that a client set or held is left on the server's connections.
        left = stores[0].open_control()
        assert left.claim_lease(0, "me", 60.0) == 1
        with psycopg.connect(pooler.url, autocommit=True, prepare_threshold=None) as client:
            [(timeout,)] = client.execute("SHOW idle_in_transaction_session_timeout").fetchall()
            locks = client.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'").fetchall()
        assert (timeout, locks) == ("0", [])


# Clocks


def test_now_is_that_of_the_server(postgres, open_store):
    """Whatever this machine thinks."""
    wrong_by_s = 60.0
    clock.follow(time.time() + wrong_by_s, time.monotonic(), time.monotonic())
    assert clock.now() == pytest.approx(time.time() + wrong_by_s, abs=1)
    control = open_store().open_control()
    assert clock.now() == pytest.approx(time.time(), abs=1)
    clock.follow(time.time() - wrong_by_s, time.monotonic(), time.monotonic())
    control.renew_leases("me", {}, 5.0)
    assert clock.now() == pytest.approx(time.time(), abs=1)


SAYS_WHAT_TIME_IT_IS = """
import sys, time
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.postgres import database
from manyhands.shared.crawl.store.postgres.store import PostgresStore
store = PostgresStore([sys.argv[1]])
control = store.open_control()
control.claim_lease(0, "skewed", 60.0)
print(time.time(), clock.now(), flush=True)
store.close()
"""


@pytest.mark.faketime
@pytest.mark.parametrize("ahead_s", [-60, 60])
def test_hosts_whose_clocks_are_wrong_agree_with_the_others(
    postgres, schema, open_store, tmp_path, ahead_s
):
    control = open_store().open_control()
    host = SettableClock(tmp_path / "clock")
    host.step(ahead_s)
    said = subprocess.run(
        [sys.executable, "-c", SAYS_WHAT_TIME_IT_IS, f"{postgres.url}?schema={schema}"],
        env=os.environ | host.settings,
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    wall, now = map(float, said.split())
    assert wall - time.time() == pytest.approx(ahead_s, abs=5)
    assert now == pytest.approx(time.time(), abs=5)
    control.layout(1)
    [lease] = control.leases()
    assert lease.is_live
    assert control.claim_lease(0, "me", 60.0) is None


# What is said


def test_no_error_shows_the_password(postgres):
    secret = "se%2Fcr%40et-word"
    wrong = f"postgresql://manyhands:{secret}@127.0.0.1:{postgres.port}/postgres"
    with (
        contextlib.closing(PostgresStore([wrong])) as store,
        pytest.raises(StateError, match="password authentication failed") as refused,
    ):
        store.open_control()
    for url in ("postgresql://me:se/cr@et-word@host/db", "postgresql://me:et-word@host:a/db"):
        with pytest.raises(ConfigError) as misread:
            PostgresStore([url])
        assert "et-word" not in str(misread.value)
    assert "et-word" not in str(refused.value)
    assert "se/cr" not in repr(store)


def test_looking_for_known_urls_reads_those_and_not_the_whole_table(
    postgres: PostgresServer, open_store: Open, schema: str
) -> None:
    known, wanted = urls_of("example.com", 3000), 100
    store = open_store()
    shard = store.open_shard(1, 0, 1, NOW)
    shard.run(lambda: shard.admit(CRAWL, known, NOW))
    shard.run(lambda: shard.admit(CRAWL, known[:wanted], NOW))
    shard.run(lambda: shard.parsed(CRAWL, [url.key for url in known[:wanted]], NOW))
    # A connection that ends brings its statistics to the others.
    store.close()
    query = (
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables"
        " WHERE schemaname = %s AND relname = 'g1_s0000_seen'"
    )
    with psycopg.connect(postgres.url, autocommit=True) as connection:

        def read() -> int:
            return int(connection.execute(query, (schema,)).fetchall()[0][0])

        assert wait_until(lambda: read() > 0, 10.0)
        assert read() <= 2 * wanted


def test_a_shard_of_an_older_release_is_brought_up_to_date_and_keeps_its_urls(
    postgres: PostgresServer, schema: str, open_store: Open
) -> None:
    store = open_store()
    first = store.open_shard(1, 0, 1, NOW)
    first.run(lambda: first.admit(CRAWL, urls_of("example.com", 3), NOW))
    with psycopg.connect(postgres.url) as connection:
        # With the index of the untold.
        connection.execute(f"ALTER TABLE {schema}.g1_s0000_urls DROP COLUMN job, DROP COLUMN note")
        connection.execute(f"DROP INDEX {schema}.g1_s0000_urls_ended_jobs")
        connection.execute(f"DROP TABLE {schema}.g1_s0000_first_jobs")
        connection.execute(f"UPDATE {schema}.shards SET version = 1")
    shard = store.open_shard(1, 0, 2, NOW)
    job = urls_of("example.com", 1)[0]._replace(job="what it was")
    shard.run(lambda: shard.admit(0, [job], NOW))
    assert shard.counters(CRAWL)["admitted"] == 6
    assert shard.counters(0)["admitted"] == 1
    # It is done once.
    assert store.open_shard(1, 0, 3, NOW).counters(CRAWL)["admitted"] == 6


def test_a_shard_of_a_later_release_is_refused(
    postgres: PostgresServer, schema: str, open_store: Open
) -> None:
    store = open_store()
    store.open_shard(1, 0, 1, NOW)
    with psycopg.connect(postgres.url) as connection:
        connection.execute(f"UPDATE {schema}.shards SET version = 99")
    with pytest.raises(StateError, match="later release"):
        store.open_shard(1, 0, 2, NOW)
