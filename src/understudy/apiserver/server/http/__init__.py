"""The HTTP edge: listens on a socket, reads requests, sends answers and watches. `http1` speaks the protocol."""
