"""The handlers of the verbs: get, list, watch, create, update, patch, delete."""
