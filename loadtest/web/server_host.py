"""One host with the synthetic web, a broker and a PostgreSQL, for workers on hosts of their own
that reach it over a network only. Needs root, as all networks of hosts do."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from devservers import BrokerServer, PostgresServer, Relay
from devservers.hosts import Network
from devservers.processes import Child
from loadtest.lib.worker_service import start_worker
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec

SERVER_HOST = "server"
# Of the web's hosts, on the server host.
WEB_ADDRESSES = "10.0.0.0/11"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ServerHost:
    network: Network
    broker: BrokerServer
    postgres: PostgresServer
    web: SyntheticWeb
    # As the other hosts know them.
    broker_url: str
    postgres_url: str

    def from_elsewhere(self, settings: Mapping[str, str]) -> dict[str, str]:
        """What is set on this host, as it must be set on the others."""
        return _from_elsewhere(self.network, settings)

    def start_worker(self, host: str, settings: dict[str, str], log: Path) -> Child:
        """A worker service on another host."""
        settings = self.from_elsewhere(self.web.worker_settings) | settings
        return self.network.on(host, lambda: start_worker(self.broker_url, settings, log))


@contextmanager
def network_of(workers: Sequence[str]) -> Iterator[Network]:
    """The server host, these hosts, and the way from them to the web."""
    with Network([SERVER_HOST, *workers]) as network:
        network.lead(WEB_ADDRESSES, to=SERVER_HOST)
        yield network


@contextmanager
def server_host(network: Network, spec: WebSpec, rtt_ms: float = 0.0) -> Iterator[ServerHost]:
    """Meanwhile the calling thread is on it. The others are so far away from broker and database;
    without a distance the database sees them itself."""
    address = network.address(SERVER_HOST)
    with ExitStack() as opened:
        opened.enter_context(network.inside(SERVER_HOST))
        postgres = opened.enter_context(PostgresServer(address=address))
        broker = opened.enter_context(BrokerServer())
        web = opened.enter_context(SyntheticWeb(spec))
        urls = {
            "broker": opened.enter_context(Relay(broker.port, rtt_ms, address)).url_for(broker),
            "postgres": postgres.url,
        }
        if rtt_ms:
            relay = opened.enter_context(Relay(postgres.port, rtt_ms, address))
            urls["postgres"] = postgres.url_at(relay.port)
        urls = _from_elsewhere(network, urls)
        yield ServerHost(network, broker, postgres, web, urls["broker"], urls["postgres"])


def _from_elsewhere(network: Network, settings: Mapping[str, str]) -> dict[str, str]:
    address = network.address(SERVER_HOST)
    return {name: value.replace(LOOPBACK, address) for name, value in settings.items()}
