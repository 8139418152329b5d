"""A thread beside the event loop for requests with large objects, and the store as that thread reaches it."""
