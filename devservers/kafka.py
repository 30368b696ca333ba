"""A real Kafka, one node that is broker and controller (KRaft), for one test, demo or benchmark."""

from collections.abc import Sequence
from pathlib import Path

from devservers.build import run_tool
from devservers.maven import java, java_servers
from devservers.processes import Child
from devservers.server import Server

CLUSTER_ID = "bWFueWhhbmRzLXRlc3RzMA"  # any 16 bytes, in base64
HEAP = "256m"
READY_LINE = "Kafka Server started"


class KafkaServer(Server):
    """A Kafka process. Topics come into being when they are first used, as Kafka's default is."""

    name = "Kafka"
    port_count = 2
    # A busy machine takes far longer over a JVM than an idle one, some 5 s.
    start_deadline = 90.0

    @property
    def address(self) -> str:
        """What clients call bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    def _start_child(self, ports: Sequence[int]) -> Child:
        settings = self.data_dir / "server.properties"
        settings.write_text(_settings(self.data_dir, *ports), encoding="utf-8")
        # Only a directory that is not formatted yet is.
        run_tool(
            _java_command(
                *("kafka.tools.StorageTool", "format", "--ignore-formatted"),
                *("--cluster-id", CLUSTER_ID, "--config", str(settings)),
            ),
            directory=self.data_dir,
            env={},
        )
        return Child(
            _java_command("kafka.Kafka", str(settings)), log=self.data_dir / "kafka.log", env={}
        )

    def _is_ready(self, child: Child, port: int) -> bool:
        del port
        return READY_LINE in child.log_text()


def _java_command(*arguments: str) -> list[str]:
    return [
        *(java(), f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        "-Djava.net.preferIPv4Stack=true",
        *("-cp", str(java_servers() / "kafka" / "*"), *arguments),
    ]


def _settings(directory: Path, port: int, controller_port: int) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "log.dirs": directory / "db",
        # There is one node to hold a copy, and no group of consumers to wait for.
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        # After a crash it is let in again when its old session has ended, by default after 9 s.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        # By default 50 each, which take seconds to make, and a buffer of half the heap, in bytes.
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
        "log.cleaner.dedupe.buffer.size": 2_097_152,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
