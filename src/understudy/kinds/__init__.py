"""The kinds of Kubernetes: one entry for each API group, with validation, strategies, defaults and tables side by side.

`declarations` says what a kind is, `common` has what groups share, `behaviors` joins the groups.
"""
