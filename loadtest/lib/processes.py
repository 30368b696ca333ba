"""What the operating system says about a process and its children: CPU, memory, sockets."""

import psutil


def listening_port(pid: int) -> int | None:
    """Return a TCP port on which this process itself listens; None as long as there is none."""
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.NoSuchProcess:
        return None
    ports = [one.laddr.port for one in connections if one.status == psutil.CONN_LISTEN]
    return ports[0] if ports else None


class Tree:
    """A process and all the descendants that it has now: finding them is too slow to repeat."""

    def __init__(self, pid: int) -> None:
        try:
            root = psutil.Process(pid)
            self._members = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess as error:
            raise ProcessLookupError(f"process {pid} is gone") from error

    def cpu_s(self) -> float:
        total = 0.0
        for member in self._members:
            try:
                times = member.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total

    def rss_bytes(self) -> int:
        total = 0
        for member in self._members:
            try:
                total += member.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return total

    def sockets_to(self, port: int) -> int:
        """Count the established TCP connections to a port; slow with thousands of them."""
        count = 0
        for member in self._members:
            try:
                connections = member.net_connections("tcp")
            except psutil.NoSuchProcess:
                continue
            count += sum(
                connection.status == psutil.CONN_ESTABLISHED
                and bool(connection.raddr)
                and connection.raddr.port == port
                for connection in connections
            )
        return count
