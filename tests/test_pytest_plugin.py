"""The `apiserver` fixture, as projects see it that install understudy."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from tests.releases import NEWEST
from tests.ui.test_report import data_of

CLAIM = """
    CLAIM = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu"}]}},
    }
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Return an empty project whose tests run in processes of their own, so that nothing it imports stays here."""
    pytester.makeini(
        "[pytest]\nfilterwarnings = error\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function"
    )
    return pytester


def test_sync_and_async_tests(project: pytest.Pytester) -> None:
    """A test gets a server with an address and a kubeconfig; it runs beside the event loop of an async test."""
    project.makepyfile(f"""
        import aiohttp, gc, json, urllib.request
        from pathlib import Path

        def test_sync(apiserver):
            assert gc.isenabled()
            with urllib.request.urlopen(apiserver.url + "/version") as answer:
                assert json.load(answer)["minor"] == "{NEWEST.minor}"
            assert apiserver.url in Path(apiserver.kubeconfig).read_text()

        async def test_async(apiserver):
            async with aiohttp.ClientSession(apiserver.url) as session, session.get("/version") as answer:
                assert (await answer.json())["minor"] == "{NEWEST.minor}"
    """)
    project.runpytest_subprocess().assert_outcomes(passed=2)


def test_each_test_sees_an_empty_server(project: pytest.Pytester) -> None:
    """Objects and gates of one test are gone for the next one, though the server goes on running."""
    project.makepyfile(
        CLAIM
        + """
    import pytest

    pytestmark = pytest.mark.apiserver(emulated_version="1.32")
    ports = []

    def check(apiserver):
        assert apiserver.list("resourceclaims", namespace="default") == []
        made = apiserver.apply(CLAIM | {"spec": {"devices": {"requests": [
            {"name": "gpu", "deviceClassName": "gpu", "allocationMode": "All", "adminAccess": True}]}}})
        assert "adminAccess" not in str(apiserver.get("resourceclaims", "gpu", namespace="default"))
        apiserver.set_feature_gates({"DRAAdminAccess": True})
        ports.append(apiserver.url)

    def test_one(apiserver):
        check(apiserver)

    def test_two(apiserver):
        check(apiserver)

    def test_same():
        assert len(ports) == 2 and len(set(ports)) == 1
    """
    )
    project.runpytest_subprocess().assert_outcomes(passed=3)


def test_marker_sets_options(project: pytest.Pytester) -> None:
    """The marker sets release, gates and objects to load; the nearest marker wins, option by option."""
    world = project.path / "worlds" / "one.yaml"
    world.parent.mkdir()
    world.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: loaded, namespace: default}\n")
    project.makepyfile(
        CLAIM
        + """
    import json, urllib.request
    import pytest

    pytestmark = pytest.mark.apiserver(emulated_version="1.31")

    def minor(apiserver):
        with urllib.request.urlopen(apiserver.url + "/version") as answer:
            return json.load(answer)["minor"]

    def test_module(apiserver):
        assert minor(apiserver) == "31"

    @pytest.mark.apiserver(load=["worlds/one.yaml"])
    def test_both(apiserver):
        assert minor(apiserver) == "31"
        assert apiserver.get("ConfigMap", "loaded", namespace="default")["metadata"]["name"] == "loaded"

    @pytest.mark.apiserver(load=["worlds/one.yaml"])
    def test_again(apiserver):
        assert apiserver.get("ConfigMap", "loaded", namespace="default")["metadata"]["name"] == "loaded"

    @pytest.mark.apiserver(emulated_version="1.32", feature_gates={"DRAAdminAccess": True})
    def test_nearest(apiserver):
        assert minor(apiserver) == "32"
        claim = CLAIM | {"spec": {"devices": {"requests": [
            {"name": "gpu", "deviceClassName": "gpu", "allocationMode": "All", "adminAccess": True}]}}}
        apiserver.apply(claim)
        assert "adminAccess" in str(apiserver.get("resourceclaims", "gpu", namespace="default"))
    """
    )
    project.runpytest_subprocess("--strict-markers").assert_outcomes(passed=4)


def test_marker_loads_worlds(project: pytest.Pytester) -> None:
    """A world is loaded by its name, unless there is a file of that name beside the test."""
    (project.path / "demo").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: mine}\n")
    project.makepyfile(
        """
    import pytest

    @pytest.mark.apiserver(emulated_version="1.33", load=["gpu-cluster", "demo"])
    def test_worlds(apiserver):
        assert len(apiserver.list("resourceslices")) == 2
        assert apiserver.get("namespace", "mine")
    """
    )
    project.runpytest_subprocess("--strict-markers").assert_outcomes(passed=1)


@pytest.mark.maintenance
def test_wrong_marker_fails_the_test(project: pytest.Pytester) -> None:
    """A marker with options that no server has fails its test in one line, which says why."""
    (project.path / "bad.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\n")
    project.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.parametrize("number", [
            pytest.param(1, marks=pytest.mark.apiserver("1.31")),
            pytest.param(2, marks=pytest.mark.apiserver(emulated_version="1.2")),
            pytest.param(3, marks=pytest.mark.apiserver(feature_gate={})),
            pytest.param(4, marks=pytest.mark.apiserver(feature_gates={"DRAAdminAcess": True})),
            pytest.param(5, marks=pytest.mark.apiserver(load=["absent.yaml"])),
            pytest.param(6, marks=pytest.mark.apiserver(load="bad.yaml")),
            pytest.param(7, marks=pytest.mark.apiserver(token_auth_file="absent.csv")),
        ])
        def test_it(number, apiserver): pass
    """
    )
    result = project.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=7)
    errors = result.stdout.str().partition(" ERRORS ")[2].partition(" short test summary ")[0].splitlines()
    nowhere = f"No such file or directory, neither in {project.path} nor in the working directory {project.path}"
    texts = [
        "the marker takes keyword arguments only, such as emulated_version",
        "unknown release '1.2': there are 1.31, ",
        "Server has no option 'feature_gate'; did you mean 'feature_gates'?",
        "unrecognized feature gate: DRAAdminAcess; did you mean 'DRAAdminAccess'?",
        f"absent.yaml: {nowhere}",
        f'{project.path / "bad.yaml"}, document 1 (line 1): ConfigMap "A" is invalid: metadata.name: ',
        f"absent.csv: {nowhere}",
    ]
    lines = [line for line in errors[1:-1] if not line.startswith("_")]
    assert [line[: len(text) + 11] for line, text in zip(lines, texts, strict=True)] == [
        f"apiserver: {t}" for t in texts
    ]


@pytest.mark.maintenance
def test_paths_mean_the_same_everywhere(project: pytest.Pytester) -> None:
    """A relative path is one of the test's folder, or else of the working directory, in the marker and in methods."""
    tests = project.mkdir("tests")
    for path, name in (("tests/one.yaml", "beside"), ("one.yaml", "hidden"), ("two.yaml", "working-directory")):
        world = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\n"
        (project.path / path).write_text(world)
    (project.path / "tokens.csv").write_text("secret,ann,1\n")
    (tests / "test_it.py").write_text("""
import pytest
from pathlib import Path

FILES = ["one.yaml", Path("two.yaml")]

def names(apiserver):
    return [each["metadata"]["name"] for each in apiserver.list("configmaps", "default")]

@pytest.mark.apiserver(load=FILES, token_auth_file="tokens.csv", tls=False)
def test_marker(apiserver):
    assert names(apiserver) == ["beside", "working-directory"]

def test_method(apiserver):
    apiserver.apply(*FILES)
    assert names(apiserver) == ["beside", "working-directory"]

def test_user(apiserver):
    apiserver.user("ann").apply(*FILES)
    assert names(apiserver) == ["beside", "working-directory"]
""")
    project.runpytest_subprocess().assert_outcomes(passed=3)


SUITE = """
    import json, urllib.request
    import pytest
    import understudy

    def test_suite(apiserver):
        with urllib.request.urlopen(apiserver.url + "/version") as answer:
            assert json.load(answer)["minor"] == "34"
        assert apiserver.set_feature_gates({})["DRADeviceTaints"]

    def test_wider(apiserver_options):
        assert understudy.Server(**apiserver_options).set_feature_gates({})["DRADeviceTaints"]

    @pytest.mark.apiserver(emulated_version="1.31", feature_gates={})
    def test_marker(apiserver):
        assert "DRADeviceTaints" not in apiserver.set_feature_gates({})
"""


@pytest.mark.parametrize(
    ("configuration", "flags"),
    [
        ("apiserver_version = 1.32\napiserver_feature_gates = DRADeviceTaints=false", "1.34 DRADeviceTaints=true"),
        *(
            pytest.param(*each, marks=pytest.mark.maintenance)
            for each in (
                ("apiserver_version = 1.34\napiserver_feature_gates = DRADeviceTaints=true", ""),
                ("apiserver_version = 1.34\napiserver_feature_gates =\n  DRADeviceTaints=true\n  AllAlpha=false", ""),
                ("", "v1.34 AllAlpha=true"),
            )
        ),
    ],
)
def test_release_and_gates_of_a_suite(project: pytest.Pytester, configuration: str, flags: str) -> None:
    """Keys of pytest's configuration choose release and gates for all tests; flags come before them, markers first."""
    with (project.path / "tox.ini").open("a") as file:
        file.write(f"\n{configuration}\n")
    project.makepyfile(SUITE)
    names = ("--apiserver-version", "--apiserver-feature-gates")
    chosen = [f"{name}={value}" for name, value in zip(names, flags.split(), strict=False)]
    result = project.runpytest_subprocess(*chosen)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["apiserver: emulated_version=*1.34, feature_gates=*=*"])


SEVERAL = """
    import pytest
    import understudy

    def test_suite(apiserver, apiserver_session, apiserver_options):
        release = apiserver_options["emulated_version"]
        assert release in repr(apiserver) and release in repr(apiserver_session)

    @pytest.mark.apiserver(emulated_version=["1.32", "1.36"])
    def test_marker(apiserver, request):
        assert request.node.name[-5:-1] in repr(apiserver)

    @pytest.mark.apiserver(emulated_version=["1.35"])
    class TestClass:
        def test_one(self, apiserver):
            assert "1.35" in repr(apiserver)

        @pytest.mark.apiserver(emulated_version="1.36")
        def test_nearest(self, apiserver):
            assert "1.36" in repr(apiserver)

    def test_other(): pass
"""
NAMES = [
    *("test_suite[1.33]", "test_suite[1.34]", "test_marker[1.32]", "test_marker[1.36]"),
    *("TestClass::test_one[1.35]", "TestClass::test_nearest", "test_other"),
]


def test_tests_run_on_each_release(project: pytest.Pytester) -> None:
    """A suite and a marker may name several releases; a test runs on each, and has it in its name."""
    project.makepyfile(SEVERAL)
    result = project.runpytest_subprocess("--apiserver-version=1.33,1.34", "-v", "-p", "no:xdist")
    result.assert_outcomes(passed=7)
    ran = re.findall(r"\.py::(\S+) PASSED", result.stdout.str())
    assert sorted(ran) == sorted(NAMES)


def test_session_has_one_server(project: pytest.Pytester) -> None:
    """`apiserver_session` is one server; each test finds in it what wider fixtures have stored, as they have.

    Suites choose its options by overriding `apiserver_options`. A failed test shows its requests.
    """
    project.makeconftest("""
        import pytest

        @pytest.fixture(scope="session")
        def apiserver_options(apiserver_options):
            return {**apiserver_options, "emulated_version": "1.34"}
    """)
    project.makepyfile("""
        import pytest

        NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}

        @pytest.fixture(scope="module")
        def node(apiserver_session):
            return apiserver_session.create(NODE)

        @pytest.fixture
        def pod(apiserver_session, node):
            spec = {"containers": [{"name": "main", "image": "example.com/main"}]}
            apiserver_session.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})

        def test_changes(pod, apiserver_session):
            apiserver_session.delete("nodes", "n")
            assert "1.34" in repr(apiserver_session)

        async def test_finds_the_node_only(apiserver_session, node, pod):
            assert apiserver_session.get("nodes", "n") == node

        def test_finds_no_pod(apiserver_session):
            assert apiserver_session.list("pods") == []

        def test_fails(apiserver_session):
            apiserver_session.get("nodes", "absent")

        def test_is_apart(apiserver, apiserver_session):
            assert apiserver.list("nodes") == []
            assert len(apiserver_session.list("nodes")) == 1
    """)
    result = project.runpytest_subprocess()
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(
        ["*- Last requests to <Server of Kubernetes 1.34 at *> -*", "get  /api/v1/nodes/absent *"]
    )
    result.stdout.no_fnmatch_line("*/api/v1/namespaces/default/pods*")


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--apiserver-version=1.34,1.99", "unknown release '1.99': there are *"),
        *(
            pytest.param(*each, marks=pytest.mark.maintenance)
            for each in (
                ("--apiserver-version=1.99", "unknown release '1.99': there are *"),
                ("--apiserver-feature-gates=DRAAdminAcess=true", "*DRAAdminAcess; did you mean 'DRAAdminAccess'?"),
                ("--apiserver-feature-gates=DRAAdminAccess", "feature_gates: want NAME=true or NAME=false, *"),
            )
        ),
    ],
)
def test_wrong_release_of_a_suite(project: pytest.Pytester, flag: str, text: str) -> None:
    """A release or a gate that there is not ends pytest before any test, with one line."""
    project.makepyfile("def test_it(apiserver): pass")
    result = project.runpytest_subprocess(flag)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: apiserver: {text}"])
    result.stdout.no_fnmatch_line("*test_it*")


@pytest.mark.maintenance
@pytest.mark.parametrize("conftest", [True, False], ids=["conftest", "no-conftest"])
def test_packages_of_the_same_names_stay_the_projects(tmp_path: Path, conftest: bool) -> None:
    """A project's own `schemas`, `admission` and `apiserver` packages are not hidden by understudy's."""
    for package in ("schemas", "admission", "apiserver"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f"OWNER = 'the project, {package}'\n")
    if conftest:
        (tmp_path / "conftest.py").write_text("import admission, schemas\n")
    (tmp_path / "test_project.py").write_text(
        "import admission, apiserver as own, schemas\n"
        "def test_it(apiserver):\n"
        "    assert apiserver.get('Namespace', 'default')['metadata']['name'] == 'default'\n"
        "    owners = [admission.OWNER, own.OWNER, schemas.OWNER]\n"
        "    assert owners == ['the project, admission', 'the project, apiserver', 'the project, schemas']\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_plugin_imports_no_server() -> None:
    """A project that has understudy installed and does not use it loads no server library."""
    heavy = [
        "aiohttp",
        "asyncio",
        "jsonpatch",
        "orjson",
        "understudy.apiserver.server.server",
        "uvloop",
        "yaml",
    ]
    code = (
        "import pytest, sys\n"
        "before = set(sys.modules)\n"
        "import understudy.pytest_plugin\n"
        f"print(sorted((set(sys.modules) - before) & {set(heavy)!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_suite_without_the_fixture_imports_no_server(project: pytest.Pytester) -> None:
    """Tests that ask for no server run without its modules, the options of a server included."""
    project.makepyfile("""
        import sys

        def test_it():
            assert [name for name in sys.modules if name.startswith("understudy.")] == ["understudy.pytest_plugin"]
    """)
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_modules_are_imported_as_they_are() -> None:
    """pytest does not rewrite the modules of a server, which takes seconds in a folder that has none of its files."""
    assert type(importlib.import_module("understudy.controlplane.server").__loader__) is SourceFileLoader
    assert type(importlib.import_module(__name__).__loader__) is AssertionRewritingHook


@pytest.mark.parametrize(
    "scope", ["module", *(pytest.param(each, marks=pytest.mark.maintenance) for each in ("class", "session"))]
)
def test_wider_scope_is_told_what_to_use(project: pytest.Pytester, scope: str) -> None:
    """A fixture that outlives a test cannot have the server of one; every test that needs it hears of the way out."""
    project.makepyfile(f"""
        import pytest

        @pytest.fixture(scope="{scope}")
        def asks_for_it(apiserver):
            return apiserver

        @pytest.fixture(scope="{scope}")
        def asks_later(request):
            return request.getfixturevalue("apiserver")

        def test_one(asks_for_it): pass
        def test_two(asks_later): pass
        def test_three(asks_later): pass
    """)
    result = project.runpytest_subprocess()
    result.assert_outcomes(errors=3)
    errors, _, _ = result.stdout.str().partition("short test summary info")  # which CI does not shorten
    assert errors.count("A fixture that lasts longer uses `apiserver_session`") == 3
    assert errors.count("ScopeMismatch: You tried to access the function scoped fixture apiserver") == 3


@pytest.mark.maintenance
def test_other_scope_mismatches_are_left_alone(project: pytest.Pytester) -> None:
    """A mismatch of other fixtures, and a test that fails in its setup, say what they always say."""
    project.makepyfile("""
        import pytest

        @pytest.fixture
        def narrow(): pass

        @pytest.fixture(scope="module")
        def wide(narrow): pass

        @pytest.fixture
        def failing(apiserver): pytest.fail("apiserver is not to blame")

        def test_one(wide): pass
        def test_two(failing): pass
    """)
    result = project.runpytest_subprocess()
    result.assert_outcomes(errors=2)
    result.stdout.no_fnmatch_line("*understudy.Server*")
    result.stdout.fnmatch_lines(["*apiserver is not to blame*"])


REFUSALS = [
    (
        'apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "A"}})',
        "StatusError: ConfigMap*invalid*",
    ),
    ('apply("absent.yaml")', "LoadError: absent.yaml: No such file or directory, neither in *"),
    ('get("pods", "absent")', 'StatusError: pods "absent" not found'),
    ('list("nothing")', """StatusError: the server doesn't have a resource type "nothing\""""),
    ('delete("pods", "absent")', 'StatusError: pods "absent" not found'),
    ('create({"kind": "Pod"})', "RequestError: the manifest has no apiVersion"),
    ("create(3)", "TypeError: want an object, a path, YAML or JSON, not 3"),
    ('update({"apiVersion": "v1", "kind": "Pod"})', "RequestError: resource name may not be empty"),
    ('patch("pods", "absent", {})', 'StatusError: pods "absent" not found'),
    (
        'delete_collection("pods", "")',
        "StatusError: the server does not allow this method on the requested resource",
    ),
    ('watch("pdos")', """StatusError: the server doesn't have a resource type "pdos"; did you mean 'pods'?"""),
    ('wait_for("po", "a", "Ready", timeout=0)', 'TimeoutError: po "a" is not Ready=True after 0 s; there is no*'),
    ('wait_for("po", "a", "a=b")', "ValueError: want a function, *"),
    ('user("a").get("pods", "absent")', 'StatusError: pods "absent" not found'),
]


def test_refusal_shows_the_status(project: pytest.Pytester) -> None:
    """A test that fails by a refused request shows its own line and the error, and nothing of understudy."""
    tests = [f"def test_{number}(apiserver):\n    apiserver.{line}\n" for number, (line, _) in enumerate(REFUSALS)]
    project.makepyfile("".join(tests))
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=len(REFUSALS))
    failures, _, _ = result.stdout.str().partition("short test summary info")
    _, *shown = re.split(r"^_+ test_\d+ _+$", failures, flags=re.MULTILINE)
    for number, ((line, error), text) in enumerate(zip(REFUSALS, shown, strict=True)):
        last = f"test_refusal_shows_the_status.py:{2 * number + 2}: *Error"
        pytest.LineMatcher(text.splitlines()).fnmatch_lines([f">*apiserver.{line[:3]}*", f"E*{error}", last])
        assert "/understudy/" not in text, line


def test_failed_wait_shows_the_object(project: pytest.Pytester) -> None:
    """The report of a wait in vain has the object as it last was, without managed fields, and then the requests to
    each of its servers."""
    project.makepyfile("""
        SPEC = {"containers": [{"name": "main", "image": "example.com/main"}]}

        def running(pod):
            return pod["status"]["phase"] == "Running"

        def test_waits(apiserver, apiserver_session):
            apiserver_session.list("nodes")
            apiserver.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": SPEC})
            waits = {"type": "PodScheduled", "status": "False", "message": "no node has a GPU"}
            apiserver.patch("pods", "p", {"status": {"conditions": [waits]}}, subresource="status")
            apiserver.wait_for("pods", "p", running, timeout=0)
    """)
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            'E *TimeoutError: pods "p" does not fulfil running after 0 s; it is:',
            "E *kind: Pod",
            "E *  name: p",
            "E *    message: no node has a GPU",
            "E *  phase: Pending",
            f"*- Last requests to <Server of Kubernetes {NEWEST} at http://127.0.0.1:*> -*",
            "list  /api/v1/nodes *200",
            f"*- Last requests to <Server of Kubernetes {NEWEST} at http://127.0.0.1:*> -*",
            "create  /api/v1/namespaces/default/pods?* 201",
            "patch   /api/v1/namespaces/default/pods/p/status?* 200",
            "list    /api/v1/namespaces/default/pods?fieldSelector=metadata.name=p *200",
        ]
    )
    result.stdout.no_fnmatch_line("*managedFields*")


def test_failed_test_shows_the_last_requests(project: pytest.Pytester) -> None:
    """The report of a failed test has what its server has answered; that of others and of another test has not."""
    project.makepyfile("""
        import urllib.request

        def test_good(apiserver):
            urllib.request.urlopen(apiserver.url + "/version").read()

        def test_failed(apiserver):
            urllib.request.urlopen(apiserver.url + "/api/v1/nodes").read()
            apiserver.get("pods", "absent")

        def test_silent(apiserver):
            assert False
    """)
    result = project.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            f"*- Last requests to <Server of Kubernetes {NEWEST} at http://127.0.0.1:*> -*",
            "list  /api/v1/nodes *200",
            'get   /api/v1/namespaces/default/pods/absent *404  pods "absent" not found',
        ]
    )
    assert result.stdout.str().count("- Last requests to ") == 1
    result.stdout.no_fnmatch_line("*/version*200")
    result.stdout.no_fnmatch_line("*Page of*")


def test_failing_test_leaves_a_page(project: pytest.Pytester) -> None:
    """With --understudy-report each failing test leaves a page for each of its servers, which its report names."""
    project.makepyfile(f"""
        import pytest

        @pytest.fixture
        def node(apiserver):
            return apiserver.create({{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "n"}}}})

        def test_good(apiserver):
            pass

        @pytest.mark.parametrize("text", ["a/b", "a:b", "{"x" * 300}"])
        def test_failed(node, apiserver_session, text, tmp_path, monkeypatch):
            monkeypatch.chdir(tmp_path)
            assert False

        @pytest.fixture
        def broken(node):
            raise RuntimeError("broken")

        def test_without_its_fixture(broken):
            pass
    """)
    result = project.runpytest_subprocess("--understudy-report=kept/pages")
    result.assert_outcomes(passed=1, failed=3, errors=1)
    pages = {str(page) for page in (project.path / "kept" / "pages").iterdir()}
    assert len(pages) == 7
    assert pages <= set(result.outlines)
    assert result.stdout.str().count("- Page of <Server ") == 7
    assert all(page.endswith(".html") and len(Path(page).name) < 100 for page in pages)


@pytest.mark.maintenance
def test_page_of_a_teardown_that_fails(project: pytest.Pytester) -> None:
    """A page has what the server held when a fixture failed, before it was restored or stopped; others leave none."""
    project.makepyfile("""
        import pytest

        def config_map(name):
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}

        @pytest.fixture
        def breaks(request):
            yield request.getfixturevalue(request.param)
            raise RuntimeError("broken")

        @pytest.fixture(scope="module")
        def prepared(apiserver_session):
            apiserver_session.create(config_map("prepared"))
            raise RuntimeError("broken")

        def test_good(apiserver_session, apiserver):
            apiserver_session.create(config_map("good"))

        def test_prepared(prepared):
            pass

        @pytest.mark.parametrize("breaks", ["apiserver_session", "apiserver", "apiserver"], indirect=True)
        def test_broken(apiserver_session, breaks):
            breaks.create(config_map("made"))

        def test_last(apiserver, apiserver_session):
            pass
    """)
    result = project.runpytest_subprocess("--understudy-report=pages")
    result.assert_outcomes(passed=5, errors=4)
    assert held_by(project.path / "pages") == [["made"], ["made"], ["made", "prepared"], *[["prepared"]] * 3]
    assert result.stdout.str().count("- Page of <Server ") == 6
    project.runpytest_subprocess("--understudy-report=last", "-k", "apiserver1").assert_outcomes(passed=1, errors=1)
    assert held_by(project.path / "last") == [[], ["made"]]


def held_by(folder: Path) -> list[list[str]]:
    """Return the names of the ConfigMaps that tests have stored, as pages tell them."""
    tables = [data_of(page)["tables"]["/configmaps"]["rows"] for page in folder.iterdir()]
    named = [{row["object"]["metadata"]["name"] for row in rows} & {"prepared", "good", "made"} for rows in tables]
    return sorted(map(sorted, named))


@pytest.mark.maintenance
def test_page_that_cannot_be_written(project: pytest.Pytester) -> None:
    """A test that fails says why it leaves no page."""
    project.makepyfile("def test_failed(apiserver): assert False")
    (project.path / "file").write_text("")
    result = project.runpytest_subprocess("--understudy-report=file/pages")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["there is none: *Not a directory*"])
