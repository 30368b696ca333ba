"""A record of a Kafka topic, as a handler sees it. Pure."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Message:
    """Where a job came from. Headers may repeat a name, so they are pairs; a value may be None."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def header(self, name: str) -> bytes | None:
        """The last one of that name, which is how Kafka's own tools read them."""
        return next((value for one, value in reversed(self.headers) if one == name), None)
