"""Requests that a server has answered: kept in `log`, shown to tests by `requests`."""
