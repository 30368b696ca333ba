"""DNS for the fetcher: gives only addresses that may be connected to.

The connector connects to what `resolve` returns and asks nobody else, so an address cannot change
between the check and the connection.
"""

import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from worker.net.addresses import AddressRule
from worker.net.fetcher import ForbiddenAddress


class CheckedResolver(AbstractResolver):
    """Another resolver, less what the rule forbids."""

    def __init__(self, inner: AbstractResolver, rule: AddressRule) -> None:
        self._inner = inner
        self._rule = rule

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises ForbiddenAddress when the host has addresses, and none of them is allowed."""
        found = await self._inner.resolve(host, port, family)
        allowed = [one for one in found if self._rule.allows(one["host"])]
        if found and not allowed:
            # Does not say which: a stranger must not learn our network's addresses by name.
            raise ForbiddenAddress(
                f"{host} has no public address, and none that ALLOW_NETS allows: not connected to"
            )
        return allowed

    async def close(self) -> None:
        await self._inner.close()
