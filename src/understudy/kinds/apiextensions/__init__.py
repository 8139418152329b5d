"""The kind of apiextensions.k8s.io: custom resource definitions, their schemas, and objects of custom resources."""
