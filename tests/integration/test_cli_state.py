"""`manyhands state create`, `check` and `copy`, as people call them."""

import contextlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import psycopg
import pytest
import trustme

from devservers import BrokerServer, PgbouncerServer, PostgresServer
from devservers.postgres import PASSWORD, USER
from manyhands.cli import __main__ as cli
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.postgres.database import RECONNECT_S
from manyhands.shared.crawl.store.postgres.place import parse_place
from tests.conftest import StartWorker
from tests.support.cli_command import run_cli
from tests.support.crawling import HANDLERS
from tests.support.imports import ROOT
from tests.support.state_content import content, fill
from tests.support.state_places import KINDS, NewPlace, copied

WIDTH = 80
COPIES = """
import sys
from manyhands.shared.crawl.store.opening import whole_at
from manyhands.shared.crawl.store.whole import copying, old_shard
copying.LEASE_S = 0.5
old_shard.ROWS_AT_ONCE = 50
source, target = (whole_at((place,)) for place in sys.argv[1:])
copying.copy_state(source, target, 5, lambda *at: print(*at, flush=True))
"""


class Say(Protocol):
    """Runs a command here; the lines that it says, all of them for people."""

    def __call__(self, *arguments: str, code: int = 0, **settings: str) -> list[str]: ...


@pytest.fixture
def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Say:
    # Of a process of its own it would be the last word.
    monkeypatch.setattr(cli, "keep_files_private", lambda: None)
    monkeypatch.chdir(tmp_path)

    def said(*arguments: str, code: int = 0, **settings: str) -> list[str]:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["manyhands", "state", *arguments])
            for name, value in settings.items():
                patched.setenv(name, value)
            assert cli.main() == code, capsys.readouterr().err
        output = capsys.readouterr()
        assert output.out == ""
        return output.err.splitlines()

    return said


@pytest.mark.parametrize("kind", KINDS)
def test_create_makes_a_store_and_repeats_harmlessly(
    new_place: NewPlace, said: Say, kind: str
) -> None:
    place = new_place(kind)
    made, needs = said("create", place, "--shards", "7")
    assert made.startswith("made ")
    assert made.endswith("with 7 shards")
    assert needs == "its services need CRAWL_SHARDS=7"
    [again] = said("create", CRAWL_STATE=place, CRAWL_SHARDS="7")
    assert again == made.replace("made", "there already:")
    [refused] = said("create", place, "--shards", "64", code=2)
    assert "has 7 shards, not 64: `manyhands state copy --shards 64`" in refused
    assert said("check", place)[-1].endswith("agree with the rows of 7 shards")
    assert PASSWORD not in made


def test_what_is_wrong_with_a_place_is_said_in_one_line(
    postgres: PostgresServer, said: Say, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    rest = f"127.0.0.1:{postgres.port}"
    right = f"{USER}:{quote(PASSWORD, safe='')}"
    for place, expected in {
        f"postgresql://{USER}:wrong@{rest}/postgres": "password authentication failed",
        f"postgresql://{right}@{rest}/nowhere": 'database "nowhere" does not exist',
        f"postgresql://{right}@{rest}/postgres?sslmode=require": "does not support SSL",
        f"postgresql://{right}@{rest}/postgres?schema=a-b": "is no name for a schema",
        "mysql://me@host/db": "a directory, or URLs that begin with postgresql://",
        str(tmp_path / "file"): "cannot be made",
    }.items():
        code = 2 if place.startswith("mysql") else 1
        [line] = said("create", place, code=code)
        assert line.startswith("manyhands: ")
        assert expected in line
        assert "wrong@" not in line
    [line] = said("check", code=2)
    assert line == "manyhands: which store? Name it, or set CRAWL_STATE"


def test_without_the_drivers_package_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "psycopg.py").write_text("raise ImportError('no', name='psycopg')\n")
    done = run_cli(
        tmp_path, "state", "create", "postgresql://me@host/db", PYTHONPATH=f"{tmp_path}:{ROOT}"
    )
    [line] = done.stderr.decode().splitlines()
    assert done.returncode == 1
    assert line.endswith("needs psycopg, which is not installed: pip install '.[postgres]'")


@pytest.mark.parametrize("kind", KINDS)
def test_check_shows_the_crawls_and_names_differences(
    new_place: NewPlace, said: Say, kind: str
) -> None:
    place = new_place(kind)
    fill(place, 2)
    header, first, second, verdict = said("check", place)
    assert header.split() == [
        "crawl",
        "state",
        "URLs",
        "waiting",
        "in",
        "hand",
        *header.split()[6:],
    ]
    # Waiting, in hand, done, and ended otherwise.
    assert [int(number) for number in first.split()[2:]] == [400, 266, 64, 24, 46]
    assert [int(number) for number in second.split()[2:]] == [400, 264, 64, 22, 50]
    assert max(map(len, (header, first, second))) <= WIDTH
    assert verdict.endswith(": all counters agree with the rows of 2 shards")
    with (
        contextlib.closing(store_at((place,))) as store,
        contextlib.closing(store.open_shard(1, 1, 99, 0.0)) as shard,
        shard.transaction(),
    ):
        shard.count(1, {"outgoing": 3, "admitted": 1})
    *_, one, other, verdict = said("check", place, code=1)
    assert re.fullmatch(r"shard 01: crawl 1: the counter admitted is \d+, the rows are \d+", one)
    assert "the counter outgoing is" in other
    assert verdict.endswith(": 2 differences")


def test_copy_says_what_it_did_and_that_it_was_done(new_place: NewPlace, said: Say) -> None:
    source, target = new_place("sqlite"), new_place("sqlite")
    fill(source, 2)
    done, then = said("copy", source, target, "--shards", "3")
    assert done == (
        f"copied 800 URLs from {source} to {target}, 3 shards; 80 that were in flight are"
        " fetched again"
    )
    assert then == (
        f"{source} is closed. Start the services with CRAWL_STATE set to the copy and"
        " CRAWL_SHARDS=3"
    )
    assert said("copy", source, target) == [f"{source} was copied to {target} before"]
    [refused] = said("create", source, code=1)
    assert refused == (
        f"manyhands: the crawls of {source} were copied to another place and go on there:"
        " set CRAWL_STATE to it"
    )


async def test_a_worker_of_what_was_copied_ends_with_one_line(
    broker_process: BrokerServer, start_worker: StartWorker, new_place: NewPlace
) -> None:
    source = new_place("sqlite")
    fill(source, 2)
    copied(source, new_place("sqlite"))
    worker = start_worker(
        broker_process.url,
        WORKER_HANDLERS=HANDLERS,
        WORKER_STAGES="crawl:1x10",
        CRAWL_STATE=source,
        CRAWL_SHARDS="2",
    )
    assert await worker.ended() == 1
    [line] = worker.said
    assert "were copied to another place and go on there" in line


def test_a_copy_that_is_killed_anywhere_is_repeated(new_place: NewPlace) -> None:
    source, target = new_place("sqlite"), new_place("postgres")
    fill(source, 3)
    expected = content(source)
    for lines in (1, 4, 9):
        with subprocess.Popen(
            [sys.executable, "-c", COPIES, source, target],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        ) as copying:
            assert copying.stdout is not None
            for _ in range(lines):
                assert copying.stdout.readline()
            copying.kill()
        assert copying.returncode == -signal.SIGKILL
    copied(source, target, 5)
    assert content(target) == expected


def test_one_state_on_two_servers_with_roles_that_own_no_more_than_their_schemas(
    postgres: PostgresServer, new_place: NewPlace, said: Say
) -> None:
    with PostgresServer() as second:
        urls = [_url_of_role(server) for server in (postgres, second)]
        together = ",".join(urls)
        source, back = new_place("sqlite"), new_place("sqlite")
        fill(source, 3)
        expected = content(source)
        said("copy", source, together, "--shards", "5")
        *_, verdict = said("check", together)
        assert verdict.endswith("all counters agree with the rows of 5 shards")
        for url, shards in zip(urls, ([0, 2, 4], [1, 3]), strict=True):
            with psycopg.connect(parse_place(url).conninfo) as connection:
                rows = connection.execute("SELECT shard FROM roles.shards ORDER BY 1").fetchall()
            assert [shard for (shard,) in rows] == shards
        [wrong] = said("check", ",".join(urls[::-1]), code=1)
        assert "in the order in which it was made" in wrong
        said("copy", together, back)
        assert content(back) == expected
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute("DROP SCHEMA roles CASCADE")
        admin.execute("DROP ROLE only_schema")


def _url_of_role(server: PostgresServer) -> str:
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE only_schema LOGIN PASSWORD 'of-its-own'")
        admin.execute("CREATE SCHEMA roles AUTHORIZATION only_schema")
    return f"postgresql://only_schema:of-its-own@127.0.0.1:{server.port}/postgres?schema=roles"


@pytest.mark.pgbouncer
def test_over_tls_with_a_password_from_a_file(
    postgres: PostgresServer, new_place: NewPlace, said: Say, tmp_path: Path
) -> None:
    """The PostgreSQL of the tests speaks no TLS, the pooler before it does."""
    authority, certificate = trustme.CA(), tmp_path / "certificate.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
    for name, ca in (("ours", authority), ("another", trustme.CA())):
        ca.cert_pem.write_to_path(tmp_path / f"{name}.pem")
    passwords = tmp_path / "passwords"
    passwords.write_text(f"*:*:*:{USER}:{PASSWORD.replace(':', chr(92) + ':')}\n")
    passwords.chmod(0o600)
    schema = parse_place(new_place("postgres")).schema
    with PgbouncerServer(postgres, certificate=certificate) as server:
        url = f"{server.url}?schema={schema}&sslmode=verify-full&sslrootcert={tmp_path}/"
        secret = tmp_path / "state"
        secret.write_text(f"{url}ours.pem\n")
        [made] = said("create", CRAWL_STATE_FILE=str(secret))
        assert made.startswith("made ")
        without = url.replace(quote(PASSWORD, safe=""), "").replace(":@", "@")
        [there] = said("create", f"{without}ours.pem&passfile={passwords}")
        assert there.startswith("there already: ")
        began = time.monotonic()
        [refused] = said("check", f"{url}another.pem", code=1)
        assert "certificate verify failed" in refused
        # It will be no other one in a moment.
        assert time.monotonic() - began < RECONNECT_S
        [refused] = said("check", f"{server.url}?sslmode=disable", code=1)
        assert "SSL required" in refused
        for line in (made, there, refused):
            assert quote(PASSWORD, safe="") not in line
            assert PASSWORD not in line
