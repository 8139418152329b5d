"""Records a running cluster as a world: objects that a server can begin with."""
