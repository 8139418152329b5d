"""Fields of custom resources by JSONPath: columns of tables, field selectors, replicas."""
