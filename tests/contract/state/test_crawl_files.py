"""What crawls have of the files that they name: in every kind of store, for all processes."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.model import NewCrawl, SeedFile
from manyhands.shared.crawl.store.opening import store_at, whole_at
from manyhands.shared.crawl.store.postgres import migration, schema
from manyhands.shared.crawl.store.postgres.place import parse_place
from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.crawl.store.sqlite.database import open_file
from manyhands.shared.crawl.store.sqlite.directory import CONTROL_FILE
from manyhands.shared.crawl.store.sqlite.schema import CONTROL, Schema
from manyhands.shared.crawl.store.texts import PART_BYTES, pack, unpack
from manyhands.shared.crawl.store.whole.protocol import ControlTables
from tests.contract.state.helpers import NOW
from tests.support.state_places import KINDS, NewPlace, checked, copied

LATER = NOW + 10
ControlStoreAndTables = tuple[ControlStore, ControlTables]
LISTED = "example.net\n*/privé/*\n"


def create(control: ControlStore, text: str | None = None, seed_file: str | None = None) -> int:
    spec = CrawlSpec(contact="me@example.org", seed_file=seed_file, exclusions_file="out.txt")
    exclusions = None if text is None else pack(text)
    crawl, _ = control.create_crawl(NewCrawl(spec, exclusions=exclusions), NOW)
    return crawl.id


@pytest.fixture
def read(control: ControlStore) -> SeedFile:
    """A file that `me` has taken."""
    taken = control.files.take(create(control, seed_file="seeds.txt"), "me", NOW, LATER)
    assert taken is not None
    return taken


@pytest.fixture(params=KINDS)
def whole(request: pytest.FixtureRequest, new_place: NewPlace) -> Iterator[ControlStoreAndTables]:
    with closing(whole_at((new_place(request.param),))) as whole:
        yield whole.open_control()


# Exclusions


def test_a_crawl_comes_with_its_exclusions(stores, control):
    number = create(control, LISTED)
    assert stores.control().files.exclusions(number) == LISTED
    assert control.files.exclusions(number + 1) is None
    assert control.files.has_exclusions(number)
    assert not control.files.has_exclusions(number + 1)


def test_crawls_with_the_same_exclusions_share_them(whole):
    control, tables = whole
    numbers = [create(control, LISTED), create(control, LISTED), create(control, "a.com\n")]
    found = [control.files.exclusions(number) for number in numbers]
    assert found == [LISTED, LISTED, "a.com\n"]
    assert len(tables.ask("SELECT key FROM @texts")) == 2


def test_exclusions_may_be_long(whole):
    control, tables = whole
    dice = random.Random(20)
    text = "\n".join(f"{dice.getrandbits(256):064x}.example" for _ in range(60_000))
    number = create(control, text)
    assert len(tables.ask("SELECT key FROM @texts")) > 1
    assert control.files.exclusions(number) == text


def test_an_earlier_release_has_its_leader_keep_them(stores, control):
    number = create(control)
    assert control.files.exclusions(number) is None
    assert not control.files.has_exclusions(number)
    control.files.keep_exclusions(number, "a.com\nb.com/é\n")
    assert control.files.has_exclusions(number)
    control.files.keep_exclusions(number, "a.com\n")
    assert stores.control().files.exclusions(number) == "a.com\n"


def test_exclusions_of_which_a_part_is_lost_are_said_to_be_damaged(whole):
    control, tables = whole
    number = create(control, LISTED)
    with tables.transaction():
        tables.run("DELETE FROM @texts")
    with pytest.raises(StateError, match=f"exclusions of crawl {number} are damaged"):
        control.files.exclusions(number)


def test_a_packed_text_is_checked():
    packed = pack("x" * 5 * PART_BYTES)
    assert unpack(*packed) == "x" * 5 * PART_BYTES
    assert pack("y").key != pack("x").key
    for parts in ((), (b"no zlib",), (packed.parts[-1][:-1],), pack("y").parts):
        with pytest.raises(ValueError, match=r"."):
            unpack(packed.key, parts)
    assert unpack(*pack("")) == ""


# Seed files


def test_a_seed_file_waits_for_a_reader(control):
    assert control.files.seed_file(create(control)) is None
    number = create(control, seed_file="seeds.txt")
    waiting = SeedFile(number, "seeds.txt")
    assert control.files.seed_file(number) == waiting
    assert control.files.unread("me", NOW) == [waiting]


def test_a_seed_file_has_one_reader_at_a_time(stores, control, read):
    number = read.crawl
    assert (read.name, read.reader, read.until) == ("seeds.txt", "me", LATER)
    other = stores.control().files
    assert (other.unread("other", NOW + 1), other.take(number, "other", NOW + 1, LATER)) == (
        [],
        None,
    )
    assert control.files.unread("me", NOW + 1) == [read]
    assert control.files.take(number, "me", NOW + 1, LATER + 1) == read._replace(until=LATER + 1)
    # When it has not said for so long that it is there, somebody else may have it.
    [left] = other.unread("other", LATER + 1)
    assert left.crawl == number
    assert other.take(number, "other", LATER + 1, LATER + 9) is not None
    assert not control.files.add(read._replace(lines=1), {0: ["http://a.com/"]})
    assert control.seeds(0, 9) == []


def test_seeds_are_kept_with_how_far_the_file_was_read(stores, control, read):
    some = read._replace(lines=7, refused=2, size=300, digest=b"of 300 bytes", until=LATER + 5)
    assert control.files.add(some, {0: ["http://a.com/"], 3: ["http://b.com/é"]})
    files = stores.control().files
    assert files.seed_file(read.crawl) == some
    crawl = control.crawl(read.crawl)
    assert (crawl.seed_file_lines, crawl.has_all_seeds) == (7, False)
    assert [batch.urls for shard in (0, 3) for batch in control.seeds(shard, 9)] == [
        ["http://a.com/"],
        ["http://b.com/é"],
    ]
    # Whoever comes next goes on there.
    assert files.take(read.crawl, "other", LATER + 5, LATER + 9) == some._replace(
        reader="other", until=LATER + 9
    )


def test_at_the_end_of_the_file_the_crawl_has_all_seeds(control, read):
    assert control.files.add(read._replace(lines=9, is_read=True), {})
    crawl = control.crawl(read.crawl)
    assert (crawl.seed_file_lines, crawl.has_all_seeds) == (9, True)
    assert control.files.unread("me", NOW) == []
    assert control.files.take(read.crawl, "me", NOW, LATER) is None


def test_the_last_part_may_be_added_twice(control, read):
    """When the store is lost before its answer."""
    last = read._replace(lines=9, is_read=True)
    assert control.files.add(last, {0: ["http://a.com/"]})
    assert control.files.add(last, {0: ["http://a.com/"]})
    assert control.crawl(read.crawl).seed_file_lines == 9


@pytest.mark.parametrize("state", [CrawlState.STOPPING, CrawlState.FAILED])
def test_a_crawl_that_ends_takes_no_more_of_its_file(control, read, state):
    control.change_state(read.crawl, {CrawlState.STARTING}, state, NOW)
    assert not control.files.add(read, {0: ["http://a.com/"]})
    assert control.files.unread("me", NOW) == []
    assert control.files.take(read.crawl, "me", NOW, LATER) is None
    assert control.seeds_waiting(read.crawl) == 0


def test_a_crawl_that_is_paused_takes_the_rest_of_its_file(control, read):
    control.change_state(read.crawl, {CrawlState.STARTING}, CrawlState.PAUSED, NOW)
    assert control.files.add(read, {0: ["http://a.com/"]})
    assert [one.crawl for one in control.files.unread("me", NOW)] == [read.crawl]


@pytest.mark.parametrize(
    ("give_up", "trouble"),
    [
        (lambda files, _: files.leave("me"), ""),
        (lambda files, crawl: files.cannot_read(crawl, "me", "it is gone"), "it is gone"),
    ],
)
def test_what_a_reader_gives_up_others_may_read_at_once(
    control, read, give_up: Callable[..., None], trouble
):
    give_up(control.files, read.crawl)
    [left] = control.files.unread("other", NOW)
    assert (left.reader, left.trouble) == ("", trouble)
    taken = control.files.take(read.crawl, "other", NOW, LATER)
    assert taken is not None
    # It does not take away what another one reads by now.
    give_up(control.files, read.crawl)
    assert control.files.take(read.crawl, "me", NOW, LATER) is None
    assert control.files.add(taken._replace(lines=1), {})
    found = control.files.seed_file(read.crawl)
    assert found is not None and found.trouble == ""


def test_every_part_of_a_file_is_a_change_for_all(stores, control, read):
    before = control.version()
    control.files.add(read, {0: ["http://a.com/"]})
    assert stores.control().version() > before


# Of an earlier release


def is_of_files(statements: tuple[str, ...]) -> bool:
    return any("seed_files" in statement for statement in statements)


def made_by_an_earlier_release(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a crawl whose exclusions were kept, and whose seed file its leader reads."""
    spec = CrawlSpec(
        contact="me@example.org", seed_file="seeds.txt", exclusions_file="out.txt"
    ).model_dump_json()
    columns = "spec, fingerprint, state, created_at, seed_file_lines"
    if "://" not in place:
        before = next(at for at, one in enumerate(CONTROL.migrations) if is_of_files(one))
        path = Path(place) / CONTROL_FILE
        open_file(path, Schema(CONTROL.application_id, CONTROL.migrations[:before])).close()
        (path.parent / "exclusions-1.txt").write_text(LISTED, encoding="utf-8")
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(
                f"INSERT INTO crawls ({columns}) VALUES (?, ?, 'starting', 1, 4)", (spec, b"f")
            )
        return
    before = next(at for at, one in enumerate(schema.CONTROL) if is_of_files(one))
    with monkeypatch.context() as patched, closing(store_at((place,))) as store:
        patched.setattr(migration, "CONTROL", schema.CONTROL[:before])
        store.open_control()
    where = parse_place(place)
    with psycopg.connect(where.conninfo) as connection:
        connection.execute(
            f"INSERT INTO {where.schema}.crawls ({columns}, exclusions)"
            " VALUES (%s, %s, 'starting', 1, 4, %s)",
            (spec, b"f", LISTED),
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_crawl_of_an_earlier_release_goes_on(new_place, monkeypatch, kind):
    place = new_place(kind)
    made_by_an_earlier_release(place, monkeypatch)
    with pytest.raises(StateError, match="manyhands state create"):
        checked(place)
    with closing(store_at((place,))) as store, closing(store.open_control()) as control:
        assert control.files.exclusions(1) == LISTED
        assert control.files.has_exclusions(1)
        # So its leader reads on.
        assert (control.files.seed_file(1), control.files.unread("me", NOW)) == (None, [])
        assert control.crawl(1).seed_file_lines == 4
        control.files.keep_exclusions(1, "a.com\n")
        assert control.files.exclusions(1) == "a.com\n"
    assert checked(place).differences == []


# Elsewhere


@pytest.mark.parametrize(("kind", "other"), [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_a_copy_has_the_files_and_reads_on(new_place, monkeypatch, kind, other):
    source, target = new_place(kind), new_place(other)
    made_by_an_earlier_release(source, monkeypatch)
    with closing(store_at((source,))) as store, closing(store.open_control()) as control:
        control.layout(2)
        create(control, LISTED)
        taken = control.files.take(create(control, "a.com\n", "more.txt"), "me", NOW, LATER)
        assert taken is not None
        read = taken._replace(lines=3, refused=1, size=50, digest=b"digest")
        control.files.add(read, {0: ["http://a.com/"]})
    copied(source, target)
    with closing(store_at((target,))) as store, closing(store.open_control()) as control:
        assert [control.files.exclusions(crawl) for crawl in (1, 2, 3)] == [
            LISTED,
            LISTED,
            "a.com\n",
        ]
        assert control.files.seed_file(1) is None
        assert control.files.take(3, "other", NOW, LATER) == read._replace(reader="other")
    assert checked(target).differences == []
