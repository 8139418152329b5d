"""Decisions of servers outside, which are asked with SubjectAccessReviews."""
