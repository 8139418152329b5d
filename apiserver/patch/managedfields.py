"""metadata.managedFields: who owns which field of an object."""

from __future__ import annotations

from understudy.apiserver.patch.managers import manager_name, validate_field_manager

__all__ = ["manager_name", "validate_field_manager"]
