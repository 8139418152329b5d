"""What a kind is: its names and versions, its strategies and behavior, its codec."""
