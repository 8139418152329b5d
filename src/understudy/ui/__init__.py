"""The page at /ui/, which shows what a server holds and what it decided; and the same page as a file."""
