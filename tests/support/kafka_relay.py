"""Between a Kafka and its clients: says once, as a broker does that has just begun to lead a
partition, that it does not lead it."""

import asyncio

from tests.support.stream_server import StreamServer

HOST = "127.0.0.1"
# https://kafka.apache.org/protocol: keys of requests, and the version of what is made here.
PRODUCE = 0
PRODUCE_VERSION = 10
NOT_LEADER = 6
# For which the first request waits for another to be on its way behind it.
PATIENCE_S = 0.5


class KafkaRelay(StreamServer):
    """The first request with messages never reaches Kafka: it is refused when another has come,
    which is passed on, or when none comes. State: whether it was."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.has_refused = False
        self._kafka_port = port

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, HOST, 0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        from_kafka, to_kafka = await asyncio.open_connection(HOST, self._kafka_port)
        answers = asyncio.create_task(self._pass_answers(from_kafka, writer))
        try:
            await self._pass_requests(reader, to_kafka, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # One of the three has gone, which may be the test.
        finally:
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            to_kafka.close()
            writer.close()

    async def _pass_answers(
        self, from_kafka: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            answer = await _frame(from_kafka)
            # Where it says that its brokers are: a client would go there past us.
            here, there = (
                HOST.encode() + port.to_bytes(4, "big") for port in (self.port, self._kafka_port)
            )
            writer.write(_framed(answer.replace(there, here)))

    async def _pass_requests(
        self,
        reader: asyncio.StreamReader,
        to_kafka: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
    ) -> None:
        while True:
            request = await _frame(reader)
            if _is_produce(request) and not self.has_refused:
                refusal = _not_leader(request)
                self.has_refused = True
                following = asyncio.create_task(_frame(reader))
                await asyncio.wait({following}, timeout=PATIENCE_S)
                writer.write(_framed(refusal))
                request = await following
            to_kafka.write(_framed(request))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def _is_produce(request: bytes) -> bool:
    return int.from_bytes(request[:2], "big") == PRODUCE


def _not_leader(request: bytes) -> bytes:
    """The answer to a Produce request with messages for one partition."""
    assert int.from_bytes(request[2:4], "big") == PRODUCE_VERSION
    correlation = request[4:8]
    client_end = 10 + int.from_bytes(request[8:10], "big")
    # No tags, no transaction; acks (2 bytes), time-out (4), and one topic.
    topic_at = client_end + 1 + 1 + 2 + 4 + 1
    assert request[topic_at - 1] == 2, "lengths are said as one more, here and below"
    topic_end = topic_at + request[topic_at]
    assert request[topic_end] == 2
    partition = request[topic_end + 1 : topic_end + 5]
    nothing = (-1).to_bytes(8, "big", signed=True)
    return b"".join(
        (
            *(correlation, b"\0", b"\x02", request[topic_at:topic_end], b"\x02", partition),
            # No offset, no time of the append, no start of the log.
            *(NOT_LEADER.to_bytes(2, "big"), nothing, nothing, nothing),
            # No errors of single messages, no text, and tags of none of the three levels, between
            # which stands for how long we throttle.
            *(b"\x01", b"\0", b"\0", b"\0", bytes(4), b"\0"),
        )
    )
