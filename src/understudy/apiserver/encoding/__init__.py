"""Objects of a kind in its versions: read, converted, written."""
