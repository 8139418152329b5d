"""The kinds of the core group: pods, services, nodes, volumes, namespaces, config maps and the others."""
