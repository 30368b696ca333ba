"""What a store in PostgreSQL says of itself."""

from manyhands.shared.crawl.store.postgres.database import MOST_CONNECTIONS
from manyhands.shared.crawl.store.postgres.store import (
    FAR_S,
    FAR_WRITERS,
    NEAR_WRITERS,
    PostgresStore,
)


def test_one_far_database_wants_more_writers_and_the_control_store_keeps_its_connection():
    store = PostgresStore(["postgresql://a.test/x", "postgresql://b.test/x"])
    assert store.writers == NEAR_WRITERS
    store.databases[1].round_trip_s = FAR_S
    assert store.writers == FAR_WRITERS
    assert NEAR_WRITERS < FAR_WRITERS < MOST_CONNECTIONS
