"""What is asked of fetch jobs again and again is read from an index, however many have ended."""

from pathlib import Path

import pytest

from manyhands.shared.crawl.store.schema_words import IS_FORGETTABLE, IS_UNTOLD
from manyhands.shared.crawl.store.sqlite import rows
from manyhands.shared.crawl.store.sqlite.database import make_file
from manyhands.shared.crawl.store.sqlite.schema import SHARD


@pytest.mark.parametrize(
    ("statement", "condition", "index"),
    [
        (rows._UNTOLD, IS_UNTOLD, "urls_untold"),
        (rows._ENDED_JOBS, IS_FORGETTABLE, "urls_ended_jobs"),
    ],
)
def test_no_list_is_searched_for_in_all_urls(
    tmp_path: Path, statement: str, condition: str, index: str
) -> None:
    assert condition in statement
    database = make_file(tmp_path / "shard.db", SHARD, 1024 * 1024)
    values = (1,) * statement.count("?")
    plan = " ".join(row[3] for row in database.rows(f"EXPLAIN QUERY PLAN {statement}", values))
    assert f"USING INDEX {index}" in plan
    assert "TEMP B-TREE" not in plan
    database.close()
