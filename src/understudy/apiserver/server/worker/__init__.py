"""The threads of a server: that of its event loop, and one beside it for requests with large objects."""
