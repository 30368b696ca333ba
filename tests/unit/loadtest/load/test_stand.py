"""The command that a load test starts Locust with."""

from pathlib import Path

from loadtest.load.stand import USERS, Load, locust_command
from loadtest.locustfiles import __file__ as package


def test_locust_gets_the_users_that_are_asked_for_and_the_shape_only_if_it_is():
    steady = locust_command("http://localhost:1", Load(7, 30, ["list"]), Path("/out"))
    assert steady[-1] == "ListUser" and "SingleUser" not in steady
    assert steady[steady.index("--users") + 1] == "7"
    assert steady[steady.index("--run-time") + 1] == "30s"
    assert "burst.py" not in " ".join(steady)
    burst = locust_command("http://localhost:1", Load(7, 30, is_burst=True), Path("/out"))
    assert "burst.py" in " ".join(burst)
    assert burst[-len(USERS) :] == list(USERS.values())


def test_the_users_are_in_the_locustfile():
    text = (Path(package).parent / "jobs.py").read_text()
    assert all(f"class {name}(JobUser):" in text for name in USERS.values())
