"""Claims of pods: the plugin DynamicResources. Upstream: `framework/plugins/dynamicresources`."""
