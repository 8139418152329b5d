"""What an evaluation may cost, and how much work or time it may take."""
