"""Whatever a client sends, it gets an answer or the door, and others do not notice."""

import asyncio
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.broker.connections import Broker, Client

LINES = [
    b'HELLO {"v":2,"wid":"w","hostname":"h","pid":1,"labels":["a"]}',
    b'PUSH {"jid":"12345678","jobtype":"t","args":[1,"a"],"queue":"q","custom":{"x":1}}',
    b'PUSH {"jid":"23456789","jobtype":"t","args":[],"at":"2100-01-01T00:00:00Z","retry":-1}',
    b'PUSHB [{"jid":"34567890","jobtype":"t","args":[]},{"jid":"45678901","jobtype":"t"}]',
    b"FETCH q default",
    b"FETCH default",
    b'ACK {"jid":"12345678"}',
    b'FAIL {"jid":"34567890","errtype":"E","message":"m","backtrace":["a","b"]}',
    b'BEAT {"wid":"w","current_state":"quiet","rss_kb":7}',
    b'HELD {"wid":"w2","jids":["12345678"]}',
    b"INFO",
    b"FLUSH",
    b"QUEUE PAUSE *",
    b"QUEUE RESUME q",
    b"QUEUE REMOVE q default",
    b"QUEUE LATENCY q default",
    b'MUTATE {"cmd":"requeue","target":"scheduled","filter":{"regexp":"*","jobtype":"t"}}',
    b'MUTATE {"cmd":"kill","target":"dead"}',
    b'MUTATE {"cmd":"discard","target":"retries","filter":{"jids":["34567890"]}}',
    b'MUTATE {"cmd":"clear","target":"dead"}',
    b"TRACK GET x",
    b"BATCH NEW {}",
    b"END",
]


@st.composite
def mutated(draw):
    """A valid line with a few bytes replaced, put in or taken out."""
    line = bytearray(draw(st.sampled_from(LINES)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(line)))
        length = draw(st.integers(0, 3))
        piece = draw(
            st.binary(max_size=3)
            | st.sampled_from(
                [b"null", b"1e400", b"-1", b'"', b"{", b"[", b"\xff", b"\\ud800", b" "]
            )
        )
        line[at : at + length] = piece
    return bytes(line)


AS_IT_IS = st.sampled_from(LINES)
CHUNKS = st.lists(
    st.one_of(AS_IT_IS, mutated(), mutated(), st.binary(max_size=30)).map(lambda x: x + b"\r\n")
    | st.binary(max_size=10),
    max_size=12,
)


async def feed(broker: Broker, is_welcome: bool, chunks: list[bytes]) -> None:
    client = broker.connect(b'{"v":2,"wid":"w"}') if is_welcome else Client(broker.server)
    client.read()
    for chunk in chunks:
        client.send(chunk)
    client.send(b"\r\nINFO\r\n")
    await broker.answered(client)
    if not client.is_closed:
        assert re.search(rb"\$\d+\r\n\{.*\}\r\n\Z", client.read())
    client.transport.abort()
    await asyncio.sleep(0)


async def works(broker: Broker) -> None:
    client = broker.connect()
    client.send(b'FLUSH\r\nPUSH {"jid":"still-here","jobtype":"t","args":[]}\r\nFETCH default\r\n')
    await broker.answered(client)
    assert client.read().startswith(b"+OK\r\n+OK\r\n$")
    client.send(b'ACK {"jid":"still-here"}\r\nEND\r\n')
    await broker.answered(client)
    assert client.read() == b"+OK\r\n"


async def opened(directory) -> Broker:
    return Broker(directory)


def test_any_bytes_are_answered_or_end_the_connection_and_the_next_one_is_served(tmp_path):
    with asyncio.Runner() as runner:
        broker = runner.run(opened(tmp_path))

        @given(st.booleans() | st.just(True), CHUNKS)
        @settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
        def run(is_welcome, chunks):
            runner.run(feed(broker, is_welcome, chunks))
            assert broker.errors == []
            runner.run(works(broker))

        run()
        runner.run(broker.close())
