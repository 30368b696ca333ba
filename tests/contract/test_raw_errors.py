"""Lines that a stranger gets wrong: each is answered, and the connection lives on."""

import json

import pytest

from manyhands.shared.jobs import new_jid
from tests.contract.conftest import Server
from tests.contract.raw import json_line, push_line, refusal
from tests.support.raw_client import RawClient


@pytest.mark.parametrize(
    ("line", "verb"),
    [
        ("NOPE", "NOPE"),
        ("nope {}", "nope"),
        ("push {}", "push"),
        ("Fetch default", "Fetch"),
        ("", ""),
    ],
)
def test_verbs_are_known_by_their_exact_letters(server: Server, line: str, verb: str) -> None:
    assert refusal(server, line) == f"unknown command {verb}"


def test_hello_is_no_command_later_on(server: Server) -> None:
    assert refusal(server, 'HELLO {"v":2}') == "unknown command HELLO"


@pytest.mark.parametrize("verb", ["ACK", "PUSH", "PUSHB", "FAIL", "BEAT", "QUEUE", "MUTATE"])
def test_a_verb_without_what_it_needs_is_refused(server: Server, verb: str) -> None:
    refusal(server, verb)


@pytest.mark.parametrize("line", ["TRACK GET x", "BATCH NEW {}"])
def test_what_only_the_paid_edition_has_is_named_so(server: Server, line: str) -> None:
    assert "only available in Faktory Enterprise" in refusal(server, line)


# FETCH


def test_a_fetch_must_name_a_queue(server: Server) -> None:
    assert refusal(server, "FETCH") == "must call fetch with at least one queue"


def test_a_queue_may_be_named_twice(server: Server, queue: str) -> None:
    with RawClient(server.url) as stranger:
        assert stranger.call(push_line(queue=queue)) == "OK"
        fetched = json.loads(stranger.call(f"FETCH {queue} {queue}") or "null")
        assert fetched["queue"] == queue
        assert stranger.call(json_line("ACK", jid=fetched["jid"])) == "OK"


def test_lines_may_end_in_a_bare_newline(server: Server, queue: str) -> None:
    with RawClient(server.url) as stranger:
        stranger._socket.sendall(push_line(queue=queue).encode() + b"\n")
        assert stranger.answer() == "OK"
        stranger._socket.sendall(f"FETCH {queue}\n".encode())
        fetched = json.loads(stranger.answer() or "null")
        stranger._socket.sendall(json_line("ACK", jid=fetched["jid"]).encode() + b"\n")
        assert stranger.answer() == "OK"


def test_a_command_may_come_in_pieces_and_many_in_one(server: Server, queue: str) -> None:
    with RawClient(server.url) as stranger:
        line = push_line(queue=queue).encode() + b"\r\n"
        for position in range(0, len(line), 7):
            stranger._socket.sendall(line[position : position + 7])
        assert stranger.answer() == "OK"
        stranger.send(f"QUEUE LATENCY {queue}", "NOPE", f"QUEUE REMOVE {queue}", "INFO")
        assert queue in (stranger.answer() or "")
        assert stranger.answer() == "-ERR unknown command NOPE"
        assert stranger.answer() == "OK"
        assert "faktory" in (stranger.answer() or "")


# ACK, FAIL and BEAT


@pytest.mark.parametrize(
    "body",
    ["", "{}", "[]", "null", "nonsense", '{"jid":"1234\t5678"}', '{"jid":"12345678","more":1}'],
)
def test_an_ack_without_a_text_as_jid_is_invalid(server: Server, body: str) -> None:
    assert refusal(server, f"ACK {body}") == f"invalid ACK {body}"


def test_an_ack_may_be_written_with_spaces_and_escapes(server: Server, queue: str) -> None:
    jid = 'jid "with" \\ and ä'
    with RawClient(server.url) as stranger:
        assert stranger.call(push_line(jid=jid, queue=queue)) == "OK"
        assert stranger.call(f"FETCH {queue}")
        before = stranger.info()["faktory"]["sets"]["working"]
        ack = {"jid": jid, "more": "text"}
        assert stranger.call("ACK  " + json.dumps(ack, ensure_ascii=True)) == "OK"
        assert stranger.info()["faktory"]["sets"]["working"] == before - 1


def test_a_fail_must_be_json_and_name_a_job(server: Server) -> None:
    assert refusal(server, "FAIL nonsense") == "invalid FAIL nonsense"
    assert refusal(server, "FAIL {}") == "missing JID"
    assert refusal(server, 'FAIL {"jid":"nobody-knows"}') == "Job not found nobody-knows"


def test_a_fail_that_says_nothing_more_is_taken(server: Server, queue: str) -> None:
    jid = new_jid()
    with RawClient(server.url) as stranger:
        assert stranger.call(push_line(jid=jid, queue=queue, retry=-1)) == "OK"
        # It would be the default of all later ones, at a real Faktory.
        assert stranger.call(push_line(queue=f"{queue}-other", retry=25)) == "OK"
        assert stranger.call(f"FETCH {queue}")
        assert stranger.call(json_line("FAIL", jid=jid)) == "OK"
        stranger.send(mutation("requeue", jid))
        assert stranger.answer() == "OK"
        again = json.loads(stranger.call(f"FETCH {queue}") or "null")
        assert stranger.call(json_line("ACK", jid=jid)) == "OK"
    assert again["failure"]["errtype"] == "unknown"
    assert again["failure"]["message"] == "unknown"


def test_a_beat_must_be_json_and_name_a_worker(server: Server) -> None:
    assert refusal(server, "BEAT nonsense") == "invalid BEAT nonsense"
    assert refusal(server, "BEAT {}") == "unknown worker "
    assert refusal(server, 'BEAT {"wid":"nobody"}') == "unknown worker nobody"


# QUEUE, MUTATE, END


def test_the_subcommand_of_queue_may_be_in_small_letters(server: Server, queue: str) -> None:
    with RawClient(server.url) as stranger:
        assert stranger.call(f"QUEUE pause {queue}") == "OK"
        assert stranger.call("QUEUE latency") == "{}"
    assert refusal(server, "QUEUE nope") == "no such QUEUE subcommand: NOPE"
    assert refusal(server, "QUEUE PAUSE") == "internal error"
    assert refusal(server, "QUEUE LATENCY *") == "QUEUE LATENCY does not support wildcards"


def mutation(cmd: str, jid: str) -> str:
    wire = {"cmd": cmd, "target": "dead", "filter": {"jids": [jid]}}
    return "MUTATE " + json.dumps(wire, separators=(",", ":"))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"cmd": "clear", "target": "dead"}', "invalid format"),
        ('{"cmd":"clear","target":"dead"} ', "invalid format"),
        ("{}", "unknown mutate operation"),
        ('{"cmd":"nope","target":"dead"}', "unknown mutate operation"),
        ('{"cmd":"clear","target":"nope"}', "invalid target for mutation command"),
        ('{"cmd":"kill","target":""}', "invalid target for mutation command"),
        ("nonsense", ""),
    ],
)
def test_a_mutation_that_cannot_be_is_refused(server: Server, body: str, reason: str) -> None:
    assert refusal(server, f"MUTATE {body}").startswith(reason)


def test_end_has_no_answer_but_closes_after_the_answers_before_it(
    server: Server, queue: str
) -> None:
    with RawClient(server.url) as stranger:
        stranger.send(push_line(queue=queue), "END", "INFO")
        assert stranger.answer() == "OK"
        assert stranger.is_closed_by_server()
    with RawClient(server.url) as later:
        assert later.info()["faktory"]["queues"][queue] == 1
