"""Arrays as PostgreSQL reads them; whether it does is what the contract suite shows."""

from manyhands.shared.crawl.store.postgres.arrays import numbers, texts, uuids


def test_numbers_of_both_kinds_stand_between_commas():
    assert numbers([1, -2, 0.5, 1_700_000_000.25]) == "{1,-2,0.5,1700000000.25}"


def test_keys_are_written_as_hexadecimal_digits():
    assert (
        uuids([bytes(16), bytes(range(16))])
        == "{" + "0" * 32 + ",000102030405060708090a0b0c0d0e0f}"
    )


def test_what_means_something_in_an_array_is_escaped_in_a_text():
    assert texts(["", "a,b", 'say "no"', "back\\slash", "{x}"]) == (
        '{"","a,b","say \\"no\\"","back\\\\slash","{x}"}'
    )


def test_nothing_is_an_empty_array():
    assert (numbers([]), uuids([]), texts([])) == ("{}", "{}", "{}")
