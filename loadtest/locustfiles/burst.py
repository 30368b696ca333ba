"""A shape for Locust: quiet, then for a few seconds all users at once, and so on.

locust -f loadtest/locustfiles/jobs.py,loadtest/locustfiles/burst.py --headless -u 200 -t 60 …
"""

from locust import LoadTestShape

from loadtest.load.bursts import users_at


class Burst(LoadTestShape):
    """Peak and length are the common options `--users` and `--run-time`."""

    use_common_options = True

    def tick(self) -> tuple[int, float] | None:
        assert self.runner is not None
        options = self.runner.environment.parsed_options
        assert options is not None
        second = self.get_run_time()  # type: ignore[no-untyped-call]
        users = users_at(second, options.run_time, options.num_users)
        return None if users is None else (users, options.num_users)
