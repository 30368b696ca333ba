"""Names that others choose lead to files below a directory, or to none."""

import pytest

from manyhands.shared.contained import Outside, path_below


def test_a_name_and_a_link_that_stay_inside_are_found(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "link").symlink_to("a.txt")
    assert path_below(tmp_path, "a.txt") == path_below(tmp_path, "link") == tmp_path / "a.txt"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "out", "loop", "a\0b"])
def test_what_leads_out_is_refused_and_not_told_where_to(tmp_path, name):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "out").symlink_to("/etc/passwd")
    (inside / "loop").symlink_to("loop")
    with pytest.raises(Outside) as refusal:
        path_below(inside, name)
    assert "passwd" not in str(refusal.value)
