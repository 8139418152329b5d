"""The requests that a policy or webhook concerns: rules, selectors, equivalent resources."""
