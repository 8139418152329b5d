"""Worlds: objects that a server begins with, by name. YAML files beside this are worlds, `generated` makes others.

`catalog` finds a world by its name and reads its parameters. All are written for the newest release:
`apiserver.worlds` puts their objects into the form of another one.
"""
