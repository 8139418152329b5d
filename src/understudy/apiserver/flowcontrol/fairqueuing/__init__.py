"""The queues of priority levels, and how seats are lent. Knows no request, store or event loop."""
