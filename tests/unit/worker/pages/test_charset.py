"""Which charset a page is read in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.pages.charset import decode

RUSSIAN = "Это обычная русская страница, и текста на ней достаточно, чтобы понять язык. " * 5
KOREAN = "한국어 문서의 문자 집합을 알아내는 시험입니다. 글자가 더 있으면 알아내기 쉽습니다. " * 5
JAPANESE = "これは日本語のページです。文字コードを推定するために十分な長さがあります。" * 5
CHINESE = "这是一个普通的中文网页，它的文字足够多，可以判断出所用的字符编码。" * 5
FRENCH = "Voilà un été très agréable, où l'élève mange du pâté à côté de la façade. " * 5


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8-r"),
        (KOREAN, "euc_kr"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (CHINESE, "gb18030"),
        (FRENCH, "cp1252"),
        (FRENCH, "utf-8"),
    ],
)
def test_a_page_that_does_not_say_is_looked_at(text, codec):
    assert decode(text.encode(codec), "text/html") == text


def test_the_header_counts_more_than_the_looks():
    body = RUSSIAN.encode("cp1251")
    assert decode(body, "text/html; charset=koi8-r") == body.decode("koi8-r")


def test_a_mark_counts_more_than_the_header():
    assert decode(b"\xef\xbb\xbf\xc3\xa4", "text/html; charset=latin-1") == "ä"


def test_the_header_counts_more_than_the_meta():
    body = b'<meta charset="koi8-r">\xc3\xa4'
    assert decode(body, "text/html; charset=utf-8").endswith("ä")


def test_the_meta_counts_more_than_the_looks():
    body = b'<meta charset="koi8-r">' + RUSSIAN.encode("cp1251")
    assert decode(body, "text/html") == body.decode("koi8-r")


def test_a_header_that_means_nothing_is_passed_over():
    body = b'<meta charset="koi8-r">' + RUSSIAN.encode("koi8-r")
    assert decode(body, "text/html; charset=nonsense").endswith(RUSSIAN)


def test_a_page_that_was_cut_within_a_character_is_still_utf8():
    body = (FRENCH + "é").encode()[:-1]
    assert decode(body, "text/html").startswith(FRENCH)


@given(st.binary(max_size=300), st.text(max_size=50))
def test_any_bytes_are_some_text(body, content_type):
    assert isinstance(decode(body, content_type), str)
