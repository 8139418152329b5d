"""Tokens of service accounts that are kept in Secrets, and notes about the use of all their tokens."""
