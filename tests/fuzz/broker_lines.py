"""The broker's lines, over real connections to a real process."""

import socket
import time
from typing import Self

from hypothesis import strategies as st

from devservers import BrokerServer
from tests.fuzz.inputs import Pieces, damaged, in_pieces
from tests.fuzz.servers import ServiceLog, hear, rss_of, say
from tests.support.raw_client import RawClient

HELLO = b'HELLO {"v":2,"wid":"w","hostname":"h","pid":1,"labels":["a"]}\r\n'
MESSAGES = (
    b'PUSH {"jid":"12345678","jobtype":"t","args":[1,"a"],"queue":"q","custom":{"x":1}}\r\n',
    b'PUSH {"jid":"23456789","jobtype":"t","args":[],"at":"2100-01-01T00:00:00Z","retry":-1}\r\n',
    b'PUSHB [{"jid":"34567890","jobtype":"t","args":[]},{"jid":"45678901","jobtype":"t"}]\r\n',
    b'PUSH {"jid":"56789012","jobtype":"t","args":[{}],"priority":9,"reserve_for":60,'
    b'"created_at":"2026-01-01T00:00:00.123456789Z","enqueued_at":"","backtrace":3}\r\n',
    *(b"FETCH q default\r\n", b"FETCH default\r\n", b"INFO\r\n", b"FLUSH\r\n", b"END\r\n"),
    b'ACK {"jid":"12345678"}\r\n',
    b'FAIL {"jid":"34567890","errtype":"E","message":"m","backtrace":["a","b"]}\r\n',
    b'BEAT {"wid":"w","current_state":"quiet","rss_kb":7}\r\n',
    b'HELD {"wid":"w2","jids":["12345678"]}\r\n',
    *(b"QUEUE PAUSE *\r\n", b"QUEUE RESUME q\r\n", b"QUEUE REMOVE q default\r\n"),
    b"QUEUE LATENCY q default\r\n",
    b'MUTATE {"cmd":"requeue","target":"scheduled","filter":{"regexp":"*","jobtype":"t"}}\r\n',
    b'MUTATE {"cmd":"kill","target":"retries","filter":{"regexp":"*a*b?[c-d]\\\\e*"}}\r\n',
    b'MUTATE {"cmd":"discard","target":"retries","filter":{"jids":["34567890"]}}\r\n',
    b'MUTATE {"cmd":"clear","target":"dead"}\r\n',
    *(b"TRACK GET x\r\n", b"BATCH NEW {}\r\n", HELLO),
)
WORDS = (
    *(b"PUSH ", b"PUSHB ", b"FETCH ", b"ACK ", b"FAIL ", b"MUTATE ", b"QUEUE PAUSE ", b"BEAT "),
    *(b'"jid":', b'"args":', b'"at":', b'"queue":', b'"retry":', b'"custom":', b'"failure":'),
    *(b'"regexp":"', b"*", b"?", b"[a-", b"q ", b'{"a":', b'"x",', b"1e-400", b"0.1", b"-0"),
    *(b'{"jid":"12345678"}', b'"2026-13-45T99:99:99Z"', b'"\\ud83d\\ude00"', b'"priority":'),
)

# A FLUSH between batches comes after all that is still to be written.
WRITTEN_WITHIN_S = 60.0


class BrokerLines:
    """State: the broker, and the connection of the one who asks."""

    inputs = st.tuples(
        st.sampled_from([HELLO, HELLO, HELLO, b""]),
        in_pieces(damaged(MESSAGES, WORDS, most_messages=6, max_bytes=300_000)),
    ).map(lambda found: [found[0] + found[1][0], *found[1][1:]])

    def __enter__(self) -> Self:
        self._broker = BrokerServer()
        self._broker.start()
        self._log = ServiceLog(self._broker.data_dir / "broker.log")
        self._probe = RawClient(self._broker.url)
        self._probe.set_timeout(WRITTEN_WITHIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._probe.close()
        self._broker.stop()

    def run(self, pieces: Pieces) -> float:
        with socket.create_connection(("127.0.0.1", self._broker.port), 5.0) as stranger:
            say(stranger, pieces)
            began = time.perf_counter()
            self._probe.info()
            # Answered when it is stored, behind all that the stranger has on its way to the disk.
            self._probe.call('ACK {"jid":"of nobody"}')
            took_s = time.perf_counter() - began
            hear(stranger)
        self._log.check()
        return took_s

    def settle(self) -> None:
        self._probe.call("FLUSH")

    def rss_bytes(self) -> int:
        return rss_of(self._broker.pid)
