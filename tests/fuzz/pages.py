"""HTML as the parse stage takes it: any bytes, of as many as a page may have there."""

from typing import Self

from hypothesis import strategies as st

from manyhands.shared.crawl.spec import DiscoverySpec
from manyhands.shared.memory import give_back_large_blocks, keep_free_memory
from manyhands.shared.settings import FetchSettings
from manyhands.shared.urls import parse_url
from manyhands.worker.pages.html import MAX_CRAWLED_LINKS, extract
from tests.fuzz.inputs import Pieces, damaged
from tests.fuzz.targets import Fault, InProcess

FOLLOWS = DiscoverySpec().follows
URL = parse_url("http://example.com/a/b?c=d")
TYPES = (
    *(b"text/html", b"text/html; charset=utf-8", b"", b"application/xhtml+xml; charset=utf-16"),
    *(b"text/html; charset=shift_jis", b"text/html;charset=iso-2022-jp", b"text/html; charset=x"),
)
MESSAGES = (
    b"<!doctype html><html lang=en><head><title>A page</title><base href='/x/'>"
    b"<meta charset=utf-8><meta name=robots content='nofollow, noindex'></head><body>"
    b"<h1>A</h1><p>some words <a href='next?a=1&amp;b=2#c' rel='nofollow x'>next</a></body></html>",
    b"<ul><li><a href=//other.example/>one</a><li><area href='?q'><li><a href>none</a></ul>",
    b"<svg viewBox='0 0 1 1'><g><path d='M0 0'/><use xlink:href='#a'/></g></svg>",
    b"<math><mi>x</mi><annotation-xml encoding='text/html'><p>y</annotation-xml></math>",
    b"<table><tr><td><table><tr><td>deep<form><input name=a></form></table></table>",
    b"<script>if (a < b && '</scr' + 'ipt>') { document.write('<a href=x>') }</script>",
    b"<style>a::before { content: '<' }</style><!-- a -- comment --><![CDATA[ <a href=y> ]]>",
    b"<template><a href=in></a></template><noscript><a href=ns></a></noscript>",
    b"<textarea><a href=t></textarea><select><option>1<optgroup><option>2</select>",
    b"<b><i><p>mis</b>nested</i></p><div><span></div></span><frameset><frame src=f></frameset>",
    b"<a href='http://[::1]:99999/'>x</a><a href='javascript:x'>y</a><a href='\xff\xfe'>z</a>",
    b"<link rel=next href=n><link rel=alternate hreflang=x href=y><iframe src=f></iframe>"
    b"<meta http-equiv=refresh content='0; url=r'>",
    b"<x-a y='1' y='2' z></x-a><p a=b c='d' e=\"f\" g>&#0;&#x110000;&notit;&amp &lt;</p>",
)
WORDS = (
    *(b"<a href='/p'>", b"<a>", b"</a>", b"<b>", b"</b>", b"<div>", b"</div>", b"<p>", b"<li>"),
    *(b"<table>", b"<tr><td>", b"</table>", b"<svg>", b"<path/>", b"</svg>", b"<math>", b"<mi>"),
    *(b"<select>", b"<option>", b"<template>", b"</template>", b"<form>", b"<button>", b"<nobr>"),
    *(b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<!doctype", b"<?", b"<script>", b"</script>"),
    *(b"<style>", b"<title>", b"</title>", b"<textarea>", b"<plaintext>", b"<noscript>", b"<br/>"),
    *(b" a=1", b" a", b" a='", b' b="x', b" href=x", b"&#", b"&amp;", b"&#x41;", b"<base href=x>"),
    *(b"<font>", b"<i>", b"</i>", b"<em>", b"<u>", b"<h1>", b"<dd>", b"<ruby><rt>", b"<frameset>"),
    *(b"<link rel=next href=n>", b"<iframe src=x>", b"<meta http-equiv=refresh content='0;url=x'>"),
    *(b"<meta name=robots content=none>", b"<html lang=x>", b"<body a=b>", b"</p>", b"</br>"),
)


class Pages(InProcess):
    inputs = st.tuples(
        st.sampled_from(TYPES),
        damaged(MESSAGES, WORDS, most_messages=4, max_bytes=FetchSettings().truncate_bytes),
    ).map(list)

    def __enter__(self) -> Self:
        # As a worker does.
        give_back_large_blocks()
        keep_free_memory()
        return super().__enter__()

    def call(self, pieces: Pieces) -> None:
        content_type, body = pieces
        found = extract(body, content_type.decode(), URL, MAX_CRAWLED_LINKS, FOLLOWS)
        if len(found.links) > MAX_CRAWLED_LINKS or not found.nofollow <= set(found.links):
            raise Fault(f"{len(found.links)} links, {len(found.nofollow)} not to be followed")
