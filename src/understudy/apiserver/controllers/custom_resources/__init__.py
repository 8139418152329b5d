"""Controllers of custom resource definitions: whether they are served, their API services, and their end."""
