"""The permission report: what users asked for, what they were refused, and the smallest roles for it."""
