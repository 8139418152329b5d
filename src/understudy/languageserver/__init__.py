"""The language server `understudy lsp`: errors, completion and descriptions while manifests are written.

`session` knows the open texts and what they define; `server` speaks the protocol. All else is plain functions.
"""
