"""One round of batches: servers that are there for all rounds, and a process that writes into
places of this round's own. It counts only if each has every record exactly once afterwards."""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from devservers import PostgresServer, S3Server
from devservers.elasticsearch import ElasticsearchServer
from devservers.processes import Started
from loadtest.bench.sinks.cells import BatchCell, BatchOrder, record_id
from loadtest.bench.sinks.stored import (
    check_each_once,
    elasticsearch_ids,
    make_schema,
    postgres_rows,
    s3_ids,
)
from loadtest.lib.answering import answer_of, module_command

BUCKET = "bench-sinks"
# Longer than a round can take.
TIMEOUT_S = 600.0

Values = dict[str, float]


class SinkServers(Started):
    """PostgreSQL, S3 and Elasticsearch, for all rounds: a JVM that has just started is slower than
    later."""

    def __init__(self) -> None:
        self.postgres = PostgresServer()
        self.s3 = S3Server()
        self.elasticsearch = ElasticsearchServer()
        self._stack = ExitStack()

    def start(self) -> None:
        with ExitStack() as starting:
            for server in (self.postgres, self.s3, self.elasticsearch):
                starting.enter_context(server)
            self.s3.make_bucket(BUCKET)
            self._stack = starting.pop_all()

    def stop(self) -> None:
        self._stack.close()

    @property
    def settings(self) -> dict[str, str]:
        """Variables with which a process reaches them; all else is in the URLs."""
        return {
            "AWS_ENDPOINT_URL": self.s3.endpoint,
            "AWS_ACCESS_KEY_ID": self.s3.access_key,
            "AWS_SECRET_ACCESS_KEY": self.s3.secret_key,
            "AWS_REGION": self.s3.region,
        }


class Places:
    """Those of one round on the servers: each side has its own."""

    def __init__(self, servers: SinkServers, round_number: int, spool: Path) -> None:
        self._servers = servers
        self._round = round_number
        self._spool = spool

    def url(self, sink: str, side: str) -> str:
        """Makes what has to be there."""
        name = self._name(side)
        if sink == "postgres":
            make_schema(self._servers.postgres.url, name)
            return self._postgres(name)
        if sink == "s3":
            return f"parquet+s3://{BUCKET}/{name}?spool={self._spool}"
        return f"elasticsearch://127.0.0.1:{self._servers.elasticsearch.port}/{name}"

    def ids(self, sink: str, side: str) -> list[str]:
        name = self._name(side)
        if sink == "postgres":
            return postgres_rows(self._postgres(name), "id")
        if sink == "s3":
            return s3_ids(self._servers.s3, BUCKET, name)
        return elasticsearch_ids(self._servers.elasticsearch.url, f"{name}-pages")

    def _name(self, side: str) -> str:
        return f"round{self._round}_{side}"

    def _postgres(self, schema: str) -> str:
        return f"{self._servers.postgres.url}?search_path={schema}"


def write_made_up(cell: BatchCell, batches: int) -> dict[str, Values]:
    """The values of each side. These sinks know themselves what they have, and are asked there."""
    places = {side: list(cell.sinks_of(side)) for side in cell.sides}
    return _written(BatchOrder(places, batches), {})


def write_to_servers(
    cell: BatchCell, round_number: int, batches: int, servers: SinkServers
) -> dict[str, Values]:
    """The values of each side. Raises RunError when a record is missing or there twice."""
    with tempfile.TemporaryDirectory() as spool:
        places = Places(servers, round_number, Path(spool))
        urls = {
            side: [places.url(sink, side) for sink in cell.sinks_of(side)] for side in cell.sides
        }
        order = BatchOrder(urls, batches)
        found = _written(order, servers.settings)
    wanted = [record_id(number) for number in range(order.records)]
    for side in cell.sides:
        for sink in cell.sinks_of(side):
            check_each_once(f"{sink} of {side}", wanted, places.ids(sink, side))
    return found


def _written(order: BatchOrder, settings: dict[str, str]) -> dict[str, Values]:
    inherited = {
        # The caller's own credentials must not leak in.
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AWS_")
    }
    command = module_command("loadtest.bench.sinks.handlers", order.to_dict())
    env = inherited | settings
    values: dict[str, Values] = answer_of(command, "the process", TIMEOUT_S, env=env)
    return values
