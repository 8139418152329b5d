"""Objects, lists, tables and errors as responses in the negotiated form."""
