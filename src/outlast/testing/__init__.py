"""Test tools for those who build on outlast: virtual time, an ASGI transport that streams, leak checks."""

from outlast.client.asgi import StreamingTransport
from outlast.testing.asgi import lifespan
from outlast.testing.clock import Deadlock, VirtualLoop, run
from outlast.testing.leaks import Leak, check_leaks

__all__ = ["Deadlock", "Leak", "StreamingTransport", "VirtualLoop", "check_leaks", "lifespan", "run"]
