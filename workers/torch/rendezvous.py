"""Where the ranks of several nodes meet: an address of one node, and a secret that is theirs alone.

torch's store answers everybody who reaches its port, and listens on every interface by itself. Here it
listens on the node's own address, at a port that stays reserved until rank 0 has it, and the ranks' entries
have names that begin with the secret, which Ray hands to the nodes. Who does not know it cannot join a run.

torch is imported inside functions, because the actors that reserve ports do not load it.
"""

import errno
import fcntl
import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]  # public, and not in __all__

SCHEME = "tcp://"
SECRET_DIGITS = 39
"""128 bits. There are digits only, because messages may quote the secret and fingerprints ignore digits."""

_SIOCGIFADDR = 0x8915
"""Linux's request for the IPv4 address of an interface (`man 7 netdevice`)."""


def reserved(host: str) -> socket.socket:
    """A socket bound to a free port of `host`, an address of this node.

    As long as it is open, no other user's program gets the port, but rank 0 can: both ask to share it.
    """
    return _bound(host, 0)


def url(place: socket.socket) -> str:
    """The URL of a reserved port, `tcp://HOST:PORT/SECRET`, with a new secret."""
    host, port, *_ = place.getsockname()
    secret = secrets.randbelow(10**SECRET_DIGITS)
    return f"{SCHEME}{f'[{host}]' if ':' in host else host}:{port}/{secret:0{SECRET_DIGITS}}"


def store(rendezvous: str, rank: int, timeout: timedelta) -> "Store":
    """The store of the ranks that have the URL; rank 0 serves it. Raises what torch raises."""
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

    place = urlsplit(rendezvous)
    host, port = place.hostname or "", place.port or 0
    listening = None
    if rank == 0:
        own = _bound(host, port)
        own.listen()
        listening = own.detach()  # torch closes it
    # Nobody waits for the number of clients, which a stranger could raise.
    served = TCPStore(
        host, port, None, rank == 0, timeout, wait_for_workers=False, master_listen_fd=listening
    )
    return PrefixStore(place.path.lstrip("/"), served)


@contextmanager
def of_the_machine(rendezvous: str) -> Iterator[None]:
    """Turns every error while the ranks of several nodes meet into an `OSError`: the network is at fault.

    Ranks that meet in a file are on one machine, and their errors are results.
    """
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        if not rendezvous.startswith(SCHEME):
            raise
        place = urlsplit(rendezvous)
        reason = f"the ranks did not meet at {place.hostname}:{place.port}: {error}"
        raise OSError(errno.EIO, reason) from error


def interface(rendezvous: str) -> str | None:
    """The network interface of this node that leads to the rendezvous; None where it is not known (IPv6)."""
    host = urlsplit(rendezvous).hostname or ""
    if ":" in host:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # sends nothing
        own = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            if _address(probe, name) == own:
                return name
    return None


def _address(probe: socket.socket, name: str) -> str | None:
    """The IPv4 address of an interface; None where it has none."""
    try:
        answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
    except OSError:
        return None
    return socket.inet_ntoa(answer[20:24])


def _bound(host: str, port: int) -> socket.socket:
    """A socket bound to an address, which further sockets of this user may share."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
