"""Admission plugins that ask for more rights than a request's path says: for signers, and for owners of objects."""
