"""Trouble that lasts is logged once in a while, and a new one at once."""

from manyhands.shared.trouble import Trouble


def test_the_same_is_news_again_only_after_a_while():
    now = 100.0
    trouble = Trouble(30.0, lambda: now)
    assert trouble.is_news("refused")
    now = 129.0
    assert not trouble.is_news("refused")
    now = 130.0
    assert trouble.is_news("refused")


def test_another_trouble_is_news_at_once():
    trouble = Trouble(30.0, lambda: 100.0)
    assert [trouble.is_news(text) for text in ("a", "b", "b", "a")] == [True, True, False, True]


def test_what_begins_again_after_its_end_is_news():
    trouble = Trouble(30.0, lambda: 100.0)
    assert not trouble.end()
    assert trouble.is_news("refused")
    assert trouble.end()
    assert not trouble.end()
    assert trouble.is_news("refused")
