"""Which topics are taken, in what order, and where what did not succeed goes. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from manyhands.shared.errors import ConfigError

# What Kafka takes, with room for what is put behind the name of a group.
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")


class Order(StrEnum):
    """Of which records only one runs at a time, in the order of their offsets."""

    KEY = "key"
    PARTITION = "partition"
    NONE = "none"


@dataclass(slots=True, frozen=True)
class Topic:
    name: str
    order: Order = Order.KEY


def parse_topics(text: str) -> tuple[Topic, ...]:
    """Read WORKER_TOPICS, `orders,clicks:none`."""
    topics = tuple(_parse_topic(word.strip()) for word in text.split(",") if word.strip())
    names = [topic.name for topic in topics]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"WORKER_TOPICS names {name} twice")
    return topics


def _parse_topic(word: str) -> Topic:
    name, colon, order = word.partition(":")
    check_topic_name(name, "WORKER_TOPICS")
    if not colon:
        return Topic(name)
    if order not in set(Order):
        raise ConfigError(f"WORKER_TOPICS: {word!r} is not TOPIC:ORDER with {', '.join(Order)}")
    return Topic(name, Order(order))


def check_topic_name(name: str, where: str) -> None:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise ConfigError(f"{where}: {name!r} cannot be the name of a topic")


@dataclass(slots=True, frozen=True)
class SideTopics:
    """Of one group: a topic for each delay, shortest first, and one for what is given up. All
    records of a delay wait equally long, so its topic is a queue by time."""

    group: str
    delays_s: tuple[int, ...]

    @property
    def dead(self) -> str:
        return f"{self.group}-dead"

    @property
    def retries(self) -> tuple[str, ...]:
        return tuple(map(self.retry, self.delays_s))

    def retry(self, delay_s: int) -> str:
        return f"{self.group}-retry-{delay_s}s"

    def delay_of(self, topic: str) -> int | None:
        """None for a topic that nothing waits in."""
        return next((delay for delay in self.delays_s if self.retry(delay) == topic), None)

    def after_failures(self, failures: int) -> int:
        """The delay after so many failures: each longer than the one before, the last repeated."""
        return self.delays_s[min(failures, len(self.delays_s)) - 1]

    def not_longer_than(self, wait_s: float) -> int:
        """The longest delay within a wait: several make it up; at least the shortest."""
        fitting = [delay for delay in self.delays_s if delay <= wait_s]
        return max(fitting, default=self.delays_s[0])


def side_topics(group: str, delays_s: Sequence[int]) -> SideTopics:
    """Raises ConfigError."""
    check_topic_name(group, "WORKER_SOURCE: group")
    if not delays_s or sorted(set(delays_s)) != list(delays_s) or delays_s[0] < 1:
        raise ConfigError("KAFKA_RETRY_DELAYS_S must be whole seconds, each longer than the last")
    return SideTopics(group, tuple(delays_s))


def all_topics(topics: Iterable[Topic], side: SideTopics) -> dict[str, Topic]:
    """Everything that is consumed, by name. What is tried again keeps the order of its keys."""
    found = {topic.name: topic for topic in topics}
    for name in (*side.retries, side.dead):
        if name in found:
            raise ConfigError(f"WORKER_TOPICS: {name} is where the group keeps what has failed")
    return found | {name: Topic(name) for name in side.retries}
