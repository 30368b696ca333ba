"""Before a group is joined: are its topics there, and those beside them for what fails?

Waits for brokers: call it in a thread."""

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from manyhands.shared.errors import ConfigError

ANSWER_S = 10.0
_FORBIDDEN = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)


class KafkaAway(Exception):
    """No broker answers; it is worth another try."""


def prepare_topics(client: Mapping[str, Any], taken: Sequence[str], beside: Sequence[str]) -> None:
    """Make those beside that are missing, with as many partitions as the largest that is taken.
    Raises ConfigError, or KafkaAway."""
    told: list[KafkaError] = []
    settings: dict[str, Any] = {**client, "error_cb": told.append}
    admin = AdminClient(settings)
    try:
        known = admin.list_topics(timeout=ANSWER_S).topics
    except KafkaException as error:
        # The reason of the last connection says more than "time-out".
        told = [one for one in told if one.code() != KafkaError._ALL_BROKERS_DOWN]
        reason = told[-1] if told else error.args[0]
        if reason.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
            raise ConfigError(f"WORKER_SOURCE: user or password: {reason.str()}") from None
        raise KafkaAway(reason.str()) from None
    if missing := [name for name in taken if name not in known]:
        raise ConfigError(
            f"WORKER_TOPICS: there is no topic {', '.join(missing)} at "
            f"{client['bootstrap.servers']}, or this user may not see it"
        )
    partitions = max(len(known[name].partitions) for name in taken)
    new = [NewTopic(name, num_partitions=partitions) for name in beside if name not in known]
    if not new:
        return
    for future in admin.create_topics(new).values():
        try:
            future.result(ANSWER_S)
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() in _FORBIDDEN:
                raise ConfigError(
                    f"WORKER_SOURCE: {reason.str()}: make {', '.join(beside)} for this user"
                ) from None
            # By another worker that starts at the same time.
            if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise KafkaAway(reason.str()) from None
