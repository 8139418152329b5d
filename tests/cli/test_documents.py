"""How commands read manifests: which files a glob leaves out."""

from __future__ import annotations

import pytest

from understudy.cli.documents import is_excluded


@pytest.mark.parametrize(
    ("glob", "file", "excluded"),
    [
        ("*.json", "a/b.json", True),
        ("*.json", "a/b.yaml", False),
        ("charts", "a/charts/b.yaml", True),
        ("charts/", "charts/b/c.yaml", True),
        ("chart", "charts/b.yaml", False),
        ("a/charts", "/work/a/charts/b.yaml", True),
        ("a/charts", "charts/b.yaml", False),
        ("./a/*.yaml", "a/b.yaml", True),
        ("a/*.yaml", "a/b/c.yaml", False),
        ("a/*/c.yaml", "a/b/c.yaml", True),
        ("a/**/c.yaml", "a/c.yaml", True),
        ("a/**/c.yaml", "a/b/b/c.yaml", True),
        ("a/**", "a/b/c.yaml", True),
        ("**/crds/**", "crds/a.yaml", True),
        ("**/crds/**", "a/crds.yaml", False),
        ("[ab].yaml", "./b.yaml", True),
        ("*", "-", True),
    ],
)
def test_globs_match_names_and_ends_of_paths(glob: str, file: str, excluded: bool) -> None:
    """A glob is compared with a file and with the folders around it: with the name, or as many names as it has."""
    assert is_excluded(file, [glob]) is excluded
    assert is_excluded(file, ["nothing", glob]) is excluded
