"""What the project is made and checked with: each package is a command, `python -m scripts.PACKAGE --help`."""
