"""Reduced HTML as Markdown."""

import pytest

from manyhands.worker.pages.markdown import markdown_of, text_of


def markdown(reduced: str) -> str:
    return markdown_of(reduced, lambda reference: None if reference == "no" else f"u:{reference}")


@pytest.mark.parametrize(
    ("reduced", "expected"),
    [
        ("<h2>Part</h2>\n\n<p>One\ntwo</p>\n\n<p>three</p>", "## Part\n\nOne two\n\nthree"),
        ('<p>a <a href="b?x=1&amp;y">link</a>.</p>', "a [link](u:b?x=1&y)."),
        ('<p><a href="no">link</a> <a href="b"></a>x</p>', "link x"),
        ("<p>1 &lt; 2 * 3 [x](y) `z`</p>", "1 \\< 2 \\* 3 \\[x\\](y) \\`z\\`"),
        (
            "<p># no heading</p><p>- no item</p><p>1. none</p>",
            "\\# no heading\n\n\\- no item\n\n\\1. none",
        ),
        ("<pre>a *b*\n  &amp;lt;</pre>", "```\na *b*\n  &lt;\n```"),
        ("<p>a<br>\nb</p>", "a  \nb"),
        (
            "<ul><li>a</li><li>b<ol><li>c</li><li>d</li></ol></li></ul>e",
            "- a\n- b\n  1. c\n  2. d\n\ne",
        ),
        ("<ul><li><p>a</p></li><li><p>b</p></li></ul>", "- a\n\n- b"),
        ("</ul></li></a>x", "x"),
        ("", ""),
    ],
)
def test_what_becomes_of_it(reduced, expected):
    assert markdown(reduced) == expected


def test_the_text_has_no_marks():
    assert (
        text_of("<h1>A &amp; b</h1>\n\n<p>c <a href=x>d</a></p>\n \n\n<p>e</p>")
        == "A & b\n\nc d\n\ne"
    )
