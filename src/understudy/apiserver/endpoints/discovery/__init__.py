"""Discovery documents: groups, versions and resources, and OpenID Connect metadata."""
