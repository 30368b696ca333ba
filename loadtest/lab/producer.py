"""The pusher as a process beside the benchmark, so that neither waits for the other."""

from dataclasses import asdict

from loadtest.lab.pusher import Order, Pushed
from loadtest.lib.prompted import Prompted


class Producer(Prompted):
    """A pusher that has made its jobs and is connected; a context manager."""

    def __init__(self, order: Order) -> None:
        super().__init__("loadtest.lab.pusher", asdict(order))

    def result(self) -> Pushed:
        """Wait until it has pushed; a pusher ends by itself when a server falls silent."""
        return Pushed(**self.answer())


def push(order: Order) -> Pushed:
    with Producer(order) as producer:
        producer.go()
        return producer.result()
