"""Names → addresses that may be connected to.

A fetcher connects only to what `addresses` returns, so an address cannot change between the check
and the connection.
"""

from collections.abc import Sequence
from typing import Protocol

from manyhands.shared.public_addresses import AddressRule
from manyhands.worker.net.fetcher import ForbiddenAddress


class Names(Protocol):
    async def addresses(self, host: str) -> Sequence[str]:
        """All addresses of a name, at least one. Raises a FetchError."""

    async def close(self) -> None: ...


class CheckedResolver:
    """Another resolver's answers, without forbidden addresses."""

    def __init__(self, inner: Names, rule: AddressRule) -> None:
        self._inner = inner
        self._rule = rule

    async def addresses(self, host: str) -> Sequence[str]:
        """Raises ForbiddenAddress when the host has addresses, and none of them is allowed."""
        found = await self._inner.addresses(host)
        allowed = [address for address in found if self._rule.allows(address)]
        if not allowed:
            # Does not say which: a stranger must not learn our network's addresses by name.
            raise ForbiddenAddress(
                f"{host} has no public address, and none that ALLOW_NETS allows: not connected to"
            )
        return allowed

    async def close(self) -> None:
        await self._inner.close()
