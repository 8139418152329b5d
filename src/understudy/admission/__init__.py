"""Admission: whether an object may be stored, and in which form (defaulting, feature gates, validation, CEL)."""
