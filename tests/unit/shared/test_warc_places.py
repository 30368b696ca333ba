"""Which objects a setting allows: by bucket and by whole parts of the key."""

import pytest

from manyhands.shared.settings import WarcSettings
from manyhands.shared.warc_places import InvalidPlace, ObjectAt, parse_prefix


@pytest.mark.parametrize(
    ("key", "prefix", "is_below"),
    [
        ("a/b/c", "s3://mine", True),
        ("a/b/c", "s3://mine/a/b/", True),
        ("a/b", "s3://mine/a/b", True),
        ("a/bc", "s3://mine/a/b", False),
        ("a", "s3://mine/a/b", False),
        ("a/b", "s3://other", False),
    ],
)
def test_an_object_lies_below_a_prefix_by_whole_parts(key, prefix, is_below):
    assert ObjectAt("mine", key).is_below(parse_prefix(prefix)) is is_below


@pytest.mark.parametrize(
    "text", ["mine", "https://h/a", "/tmp", "s3://", "s3://a b", "s3://mine/.."]
)
def test_what_is_no_prefix_is_refused(text):
    with pytest.raises(InvalidPlace):
        parse_prefix(text)


def test_nothing_of_s3_is_allowed_unless_a_setting_does():
    assert WarcSettings().s3_sources == WarcSettings().s3_destinations == ()
    allowed = WarcSettings.model_validate({"s3_sources": "s3://one/b, s3://two,"}).s3_sources
    assert allowed == (ObjectAt("one", "b"), ObjectAt("two", ""))
