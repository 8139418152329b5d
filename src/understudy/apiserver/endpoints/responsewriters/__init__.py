"""Objects, lists, tables and errors as answers in the negotiated form."""
