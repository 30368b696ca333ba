"""Visits of a synthetic web, as its ledger has them: a second apart is polite."""

from loadtest.web.politeness import NS, Visit

AGENT = "Manyhands/1.0 (+mailto:me@example.org)"
HOST, SISTER, STRANGER = "w0.site0.test", "w1.site0.test", "w3.site1.test"


def visit(
    path: str, at_s: float, *, host: str = HOST, took_s: float = 0.1, status: int = 200
) -> Visit:
    return Visit(
        host=host,
        path=path,
        url=f"http://{host}{path}",
        arrived_ns=round(at_s * NS),
        ended_ns=round((at_s + took_s) * NS),
        blocked_until_ns=0,
        connection=1,
        agent=AGENT,
        status=status,
        is_robots=path == "/robots.txt",
        is_forbidden=False,
        crawl_delay_s=0.0,
    )


def robots(host: str = HOST, at_s: float = 0.0) -> Visit:
    return visit("/robots.txt", at_s, host=host)
