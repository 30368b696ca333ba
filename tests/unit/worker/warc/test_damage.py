"""Files that are cut, overwritten or have flipped bits: what is whole is kept, and what is not is
told with its place. Nothing is read twice, and nothing in between is passed over in silence."""

import random
from itertools import pairwise

import pytest

from manyhands.worker.warc import frames
from manyhands.worker.warc.digests import Digest
from manyhands.worker.warc.frames import FALSE_START_BYTES, FALSE_STARTS, NotAnArchive
from manyhands.worker.warc.reading import ArchivedRecord, Damage, Item, Position, read_archive
from tests.support.archives import (
    PACKS,
    Archive,
    MemoryStream,
    Pack,
    as_it_is,
    gzipped,
    page,
    page_record,
    record_id,
    request_record,
    zstandard_packed,
)

PAGES = 12
SIZE = 1500
MAX_BODY = 100_000
ANY_PACK = pytest.mark.parametrize("pack", list(PACKS.values()), ids=list(PACKS))
PACKED = pytest.mark.parametrize("pack", [gzipped, zstandard_packed], ids=["gzip", "zstd"])


def read(data: bytes, offset: int = 0) -> list[Item]:
    return list(read_archive(MemoryStream(data), Position(offset), MAX_BODY))


def ids(items: list[Item]) -> list[str]:
    return [item.id for item in items if isinstance(item, ArchivedRecord)]


def damages(items: list[Item]) -> list[Damage]:
    return [item for item in items if isinstance(item, Damage)]


def spans(items: list[Item]) -> list[tuple[int, int]]:
    """From where to where each item is, in their order."""
    return [
        (item.offset, item.end) if isinstance(item, Damage) else (item.at.offset, item.after.offset)
        for item in items
    ]


def check_places(items: list[Item], length: int, pack: Pack = gzipped) -> None:
    """They lie one behind the other, from the file's beginning to its end. Without packing nothing
    guards a record's type, and one of a type that nobody knows is passed over."""
    places = spans(items)
    assert places[0][0] == 0
    assert places[-1][1] == length or pack is as_it_is
    for (_, end), (begin, _) in pairwise(places):
        assert end == begin or (pack is as_it_is and end < begin)


def all_but(*numbers: int) -> list[str]:
    return [record_id(number) for number in range(PAGES) if number not in numbers]


@pytest.fixture(params=list(PACKS.values()), ids=list(PACKS))
def archive(request: pytest.FixtureRequest) -> Archive:
    return Archive.of_pages(PAGES, request.param, SIZE)


def test_a_file_that_is_cut_off_keeps_what_came_before(archive: Archive) -> None:
    """At every byte of two members, and at a sample of all others."""
    sample = random.Random(1).sample(range(20, len(archive.data)), 200)
    cuts = {*sample, *range(archive.offsets[3], archive.offsets[5] + 1)}
    for cut in sorted(cuts):
        whole = sum(1 for end in archive.offsets[1:] if end <= cut)
        items = read(archive.data[:cut]) if whole else []
        if not items:
            continue
        assert ids(items) == [record_id(number) for number in range(whole)], cut
        if cut in archive.offsets:
            assert damages(items) == []
        else:
            (damage,) = damages(items)
            assert (damage.offset, damage.end) == (archive.offsets[whole], cut)
        check_places(items, cut)


@PACKED
def test_a_flipped_bit_costs_one_record_and_no_other(pack: Pack) -> None:
    """Anywhere in a packed file: either nothing is lost, because the bit means nothing, or the
    record that it is in, and that is told."""
    archive = Archive.of_pages(PAGES, pack, SIZE)
    chosen = random.Random(2)
    lost = 0
    for _ in range(400):
        at = chosen.randrange(len(archive.data))
        damaged = bytearray(archive.data)
        damaged[at] ^= 1 << chosen.randrange(8)
        hit = max(number for number in range(PAGES) if archive.offsets[number] <= at)

        items = read(bytes(damaged))

        if not damages(items):
            assert ids(items) == all_but(), at
            assert [item.body for item in items if isinstance(item, ArchivedRecord)] == [
                page(number, SIZE) for number in range(PAGES)
            ]
            continue
        lost += 1
        assert ids(items) == all_but(hit), at
        (damage,) = damages(items)
        assert (damage.offset, damage.end) == (archive.offsets[hit], archive.offsets[hit + 1]), at
        check_places(items, len(damaged))
    assert lost > 300


def test_a_flipped_bit_in_what_is_not_packed_is_told() -> None:
    """By the digest, if it is in the record's block; else by whatever does not fit any more."""
    archive = Archive.of_pages(PAGES, as_it_is, SIZE)
    chosen = random.Random(3)
    told = 0
    for _ in range(400):
        at = chosen.randrange(len(archive.data))
        damaged = bytearray(archive.data)
        damaged[at] ^= 1 << chosen.randrange(8)
        hit = max(number for number in range(PAGES) if archive.offsets[number] <= at)

        items = read(bytes(damaged))

        others = [item for item in items if isinstance(item, ArchivedRecord)]
        others = [item for item in others if item.at.offset != archive.offsets[hit]]
        assert [item.id for item in others] == all_but(hit), at
        assert {item.digest_state for item in others} == {Digest.OK}
        assert [item.body for item in others] == [
            page(number, SIZE) for number in range(PAGES) if number != hit
        ]
        check_places(items, len(damaged), as_it_is)
        wrong = [item for item in items if isinstance(item, ArchivedRecord)]
        told += bool(damages(items)) or any(item.digest_state is Digest.BAD for item in wrong)
    # The rest hit a header that says nothing of the block, such as the date.
    assert told > 300


@ANY_PACK
@pytest.mark.parametrize("length", [1, 100, 5000])
def test_bytes_that_are_overwritten_cost_the_records_that_they_were_in(
    pack: Pack, length: int
) -> None:
    archive = Archive.of_pages(PAGES, pack, SIZE)
    chosen = random.Random(length)
    for _ in range(50):
        at = chosen.randrange(archive.offsets[1], len(archive.data) - length)
        damaged = archive.data[:at] + chosen.randbytes(length) + archive.data[at + length :]
        hit = [
            number
            for number in range(PAGES)
            if archive.offsets[number] < at + length and archive.offsets[number + 1] > at
        ]
        items = read(damaged)
        kept = ids(items)
        assert set(all_but(*hit)) <= set(kept), at
        assert len(kept) == len(set(kept))
        check_places(items, len(damaged), pack)


@ANY_PACK
def test_bytes_that_are_missing_cost_the_records_that_they_were_in(pack: Pack) -> None:
    archive = Archive.of_pages(PAGES, pack, SIZE)
    begin, end = archive.offsets[4] + 30, archive.offsets[7] + 60

    items = read(archive.data[:begin] + archive.data[end:])

    assert set(all_but(4, 5, 6, 7)) == set(ids(items))
    check_places(items, len(archive.data) - (end - begin), pack)


@ANY_PACK
@pytest.mark.parametrize("rubbish", [b"\0" * 1000, b"\x1f\x8b\x08", b"WARC/1.0\r\n\r\n", b"x"])
def test_rubbish_between_records_is_told_and_passed_over(pack: Pack, rubbish: bytes) -> None:
    first, second = (Archive.of_pages(3, pack, SIZE).data for _ in range(2))

    items = read(first + rubbish + second + rubbish)

    numbers = [*range(3), *range(3)]
    assert ids(items) == [record_id(number) for number in numbers]
    assert [(damage.offset, damage.end) for damage in damages(items)] == [
        (len(first), len(first) + len(rubbish)),
        (len(first + rubbish + second), len(first + rubbish + second + rubbish)),
    ]


@ANY_PACK
def test_a_file_whose_beginning_is_damaged_is_read_from_where_it_is_whole(pack: Pack) -> None:
    archive = Archive.of_pages(PAGES, pack, SIZE)
    items = read(b"\0" * 30 + archive.data[30:])
    assert ids(items) == all_but(0)
    (damage,) = damages(items)
    assert (damage.offset, damage.end) == (0, archive.offsets[1])


@ANY_PACK
def test_reading_from_an_offset_where_nothing_begins_goes_on_with_the_next_record(
    pack: Pack,
) -> None:
    archive = Archive.of_pages(PAGES, pack, SIZE)
    start = archive.offsets[3] + 17

    items = read(archive.data, start)

    assert ids(items) == all_but(0, 1, 2, 3)
    (damage,) = damages(items)
    assert (damage.offset, damage.end) == (start, archive.offsets[4])


@pytest.mark.parametrize("length", [0, 3, 10**6, 10**17])
def test_a_record_that_lies_about_its_length_costs_no_other(length: int) -> None:
    records = [page_record(number, SIZE) for number in range(PAGES)]
    records[5] = page_record(5, SIZE, Content_Length=str(length))
    archive = Archive.of(records, as_it_is)
    items = read(archive.data)
    assert ids(items) == all_but(5)
    assert [damage.offset for damage in damages(items)] == [archive.offsets[5]]


@PACKED
@pytest.mark.parametrize("length", [3, 10**6])
def test_a_member_whose_record_has_another_length_is_told(pack: Pack, length: int) -> None:
    records = [page_record(number, SIZE) for number in range(PAGES)]
    records[5] = page_record(5, SIZE, Content_Length=str(length))
    archive = Archive.of(records, pack)
    items = read(archive.data)
    assert ids(items) == all_but(5)
    assert [(damage.offset, damage.end) for damage in damages(items)] == [
        (archive.offsets[5], archive.offsets[6])
    ]


@PACKED
def test_a_damaged_member_with_many_records_keeps_those_before_the_damage(pack: Pack) -> None:
    whole = pack(b"".join(page_record(number, 20 * SIZE) for number in range(PAGES)))
    items = read(whole[: len(whole) // 2] + pack(page_record(99)))
    kept = ids(items)
    assert kept[:-1] == [record_id(number) for number in range(len(kept) - 1)]
    assert kept[-1] == record_id(99)
    # What is unpacked comes in blocks, and the last one is lost as a whole.
    assert len(kept) > 3
    assert len(damages(items)) == 1


def test_requests_that_are_damaged_are_told_as_well() -> None:
    archive = Archive.of([request_record(0), page_record(1)])
    items = read(archive.data[:30] + b"\0\0\0" + archive.data[33:])
    assert ids(items) == [record_id(1)]
    assert [damage.offset for damage in damages(items)] == [0]


def test_a_search_that_runs_over_the_borders_of_pieces_finds_what_begins_there() -> None:
    first, second = gzipped(page_record(1)), gzipped(page_record(2))
    for gap in range(4990, 5010):
        data = first[:-1] + b"\xff" * (gap - len(first)) + second
        items = list(read_archive(MemoryStream(data, piece=1000), Position(), MAX_BODY))
        assert ids(items) == [record_id(2)]


NOTHING = pytest.mark.parametrize(
    ("pack", "piece"),
    [
        (gzipped, b"\x1f\x8b\x08"),
        (gzipped, gzipped(b"")),
        (zstandard_packed, b"\x28\xb5\x2f\xfd"),
        (zstandard_packed, zstandard_packed(b"")),
        (zstandard_packed, zstandard_packed(b"\r\n" * 50_000)),
        (as_it_is, b"a:WARC/1.0\r\n"),
    ],
    ids=["gzip", "empty gzip", "zstd", "empty zstd", "zstd of empty lines", "plain"],
)


@NOTHING
@pytest.mark.parametrize("records", [0, 1])
def test_places_where_no_record_begins_are_not_all_tried(
    pack: Pack, piece: bytes, records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To try one takes some 10 us, and a megabyte has room for 300,000."""
    packings: dict[Pack, type[frames.Gzip] | type[frames.Zstd] | type[frames.Plain]] = {
        gzipped: frames.Gzip,
        zstandard_packed: frames.Zstd,
        as_it_is: frames.Plain,
    }
    packing = packings[pack]
    tried: list[int] = []
    really_begins = packing.begins

    def begins(self, beginning):
        tried.append(len(beginning))
        return really_begins(self, beginning)

    monkeypatch.setattr(packing, "begins", begins)
    data = pack(page_record(1, SIZE)) * records + piece * (100_000 // len(piece))
    try:
        found = damages(read(data))
    except NotAnArchive:
        found = []
    assert len(found) == records
    assert len(tried) <= 2 * FALSE_STARTS + len(data) // FALSE_START_BYTES


@NOTHING
def test_records_behind_many_places_where_none_begins_are_read(pack: Pack, piece: bytes) -> None:
    """But for what begins in the first FALSE_START_BYTES, and that is told as damaged."""
    behind = b"".join(pack(page_record(number, SIZE)) for number in range(PAGES))
    data = pack(page_record(PAGES, SIZE)) + piece * (20_000 // len(piece)) + behind
    items = read(data)
    assert len(damages(items)) == 1
    assert ids(items)[-PAGES + 1 :] == all_but(0)


@PACKED
def test_many_records_that_nobody_wants_are_no_damage(pack: Pack) -> None:
    items = read(pack(request_record(1)) * 3 * FALSE_STARTS + pack(page_record(2, SIZE)))
    assert ids(items) == [record_id(2)]
    assert damages(items) == []
