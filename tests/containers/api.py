"""The API as somebody outside of the containers sees it."""

import time
from typing import Any

import httpx

ENDED_WITHIN_S = 900.0
# As `curl -d` sends it.
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Api:
    def __init__(self, url: str, key: str = "") -> None:
        headers = {"X-API-Key": key} if key else {}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)

    def get(self, path: str) -> Any:
        answer = self._client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, content: Any, status: int = 202) -> Any:
        answer = self._client.post(path, json=content, headers=FORM)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def is_fetched(self, jid: str) -> bool:
        """A Faktory cannot be asked for a job; the store can, from when it has taken it."""
        answer = self._client.get(f"/jobs/{jid}")
        assert answer.status_code in (200, 501), answer.text
        return bool(answer.json().get("state") == "done")

    def refuses_jobs(self) -> bool:
        """With a 503; one that it takes instead is one more to do."""
        answer = self._client.post("/jobs/add", json={"a": 1, "b": 1}, headers=FORM)
        assert answer.status_code in (202, 503), answer.text
        return answer.status_code == 503

    def waiting_in(self, queue: str) -> int:
        return int(self.get("/stats")["faktory"]["queues"].get(queue, 0))

    def push_adds(self, number: int) -> None:
        """Jobs that a server gives out again a minute after their worker died."""
        lines = "".join(
            f'{{"jobtype":"add","args":{{"a":{each},"b":1}},"reserve_for":60}}\n'
            for each in range(number)
        )
        answer = self._client.post(
            "/jobs", content=lines, headers={"Content-Type": "application/x-ndjson"}
        )
        assert answer.status_code == 202, answer.text
        assert answer.json()["accepted"] == number

    def crawl(self, seeds: list[str], delay_s: float, contact: str) -> int:
        spec = {"contact": contact, "seeds": seeds, "politeness": {"delay_s": delay_s}}
        return int(self.post("/crawls", spec, 201)["id"])

    def wait_for(self, what: str, is_so: Any, within_s: float = ENDED_WITHIN_S) -> None:
        deadline = time.monotonic() + within_s
        while not is_so():
            assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
            time.sleep(0.5)
