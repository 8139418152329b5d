"""Compare understudy with a real server, controller, scheduler or allocator."""
