"""Data for the page that the API does not have, as JSON values."""
