"""The threads of a server: that of its event loop, and a second one for requests with large objects."""
