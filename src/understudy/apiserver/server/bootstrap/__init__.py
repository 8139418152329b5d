"""The objects that every new server holds."""
