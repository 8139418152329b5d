"""The fixtures beside other plugins of pytest: several processes, and event loops in every way."""

from __future__ import annotations

import importlib.util

import pytest

SYNC = """
    import pytest

    NODE = dict(apiVersion="v1", kind="Node", metadata=dict(name="n"))

    @pytest.fixture(scope="session")
    def cluster(apiserver_session):
        apiserver_session.create(NODE)
        return apiserver_session

    def one_alone(server):
        server.create(dict(apiVersion="v1", kind="ConfigMap", metadata=dict(name="a")))
        assert len(server.list("configmaps", namespace="default")) == 1
"""
ASYNC = (
    SYNC
    + """
    import asyncio
    import aiohttp, aiohttp.web

    {fixture}
    async def session(apiserver):
        async with aiohttp.ClientSession(apiserver.url) as session:
            yield session

    {mark}
    @pytest.mark.parametrize("number", range(2))
    async def test_own_server(session, apiserver, number):
        async with session.get("/api/v1/nodes") as answer:
            assert (await answer.json())["items"] == []
        one_alone(apiserver)

    {mark}
    @pytest.mark.parametrize("number", range(2))
    async def test_server_of_the_session(cluster, number):
        one_alone(cluster)
        await asyncio.to_thread(cluster.delete, "nodes", "n")
        assert cluster.list("nodes") == []
"""
)


def needs(module: str) -> None:
    """Skip the test where a plugin is not installed."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"needs {module}, of the extra `clients`")


def run(pytester: pytest.Pytester, ini: str, *plugins: str, passed: int = 4) -> pytest.RunResult:
    """Run the tests of the project with these plugins and no others, until all have passed."""
    pytester.makeini(f"[pytest]\nfilterwarnings = error\n{ini}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        loaded = [f"-p{name}" for name in ("understudy", *plugins)]
        result = pytester.runpytest_subprocess("--strict-markers", *loaded)
    result.assert_outcomes(passed=passed)
    return result


def test_each_process_has_a_server(pytester: pytest.Pytester) -> None:
    """With pytest-xdist each worker has servers of its own, for each test and for its session."""
    needs("xdist")
    pytester.makepyfile(
        SYNC
        + """
    import os

    @pytest.mark.parametrize("number", range(4))
    def test_both(apiserver, cluster, number, request):
        one_alone(apiserver)
        one_alone(cluster)
        assert apiserver.list("nodes") == []
        cluster.delete("nodes", "n")
        assert os.environ["PYTEST_XDIST_WORKER_COUNT"] == "2"
        with open(request.config.rootpath / f"{number}.txt", "w") as file:
            file.write(cluster.url)
    """
    )
    run(pytester, "addopts = -n 2 --dist=load", "xdist")
    assert len({path.read_text() for path in pytester.path.glob("?.txt")}) == 2


@pytest.mark.maintenance
def test_each_process_leaves_pages(pytester: pytest.Pytester) -> None:
    """With pytest-xdist the failing tests of all workers leave their pages in one folder."""
    needs("xdist")
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_one(apiserver, number):
            assert number % 2
    """)
    pytester.runpytest_subprocess("-n2", "--understudy-report=pages").assert_outcomes(passed=2, failed=2)
    names = sorted(page.name for page in (pytester.path / "pages").iterdir())
    assert [name[: name.index("-0-") if "-0-" in name else name.index("-2-")] for name in names] == [
        "test_each_process_leaves_pages.py-test_one"
    ] * 2


@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_pytest_asyncio(pytester: pytest.Pytester, mode: str) -> None:
    """Coroutines of pytest-asyncio use the servers, in either mode."""
    needs("pytest_asyncio")
    strict = {"fixture": "@pytest_asyncio.fixture", "mark": "@pytest.mark.asyncio"}
    fields = strict if mode == "strict" else {"fixture": "@pytest.fixture", "mark": ""}
    pytester.makepyfile("    import pytest_asyncio\n" + ASYNC.format(**fields))
    run(pytester, f"asyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function", "asyncio")


def test_anyio(pytester: pytest.Pytester) -> None:
    """Coroutines of anyio's plugin use the servers."""
    needs("anyio")
    backend = '\n    @pytest.fixture\n    def anyio_backend():\n        return "asyncio"\n'
    pytester.makepyfile(ASYNC.format(fixture="@pytest.fixture", mark="@pytest.mark.anyio") + backend)
    run(pytester, "", "anyio")


def test_pytest_aiohttp(pytester: pytest.Pytester) -> None:
    """An application under test of pytest-aiohttp asks the server, in one event loop with its client."""
    needs("pytest_aiohttp")
    pytester.makepyfile(
        ASYNC.format(fixture="@pytest.fixture", mark="")
        + """
    async def test_application(aiohttp_client, session):
        async def names(request):
            async with session.get("/api/v1/namespaces") as answer:
                return aiohttp.web.json_response([item["metadata"]["name"] for item in (await answer.json())["items"]])

        application = aiohttp.web.Application()
        application.router.add_get("/", names)
        client = await aiohttp_client(application)
        async with client.get("/") as answer:
            assert "default" in await answer.json()
    """
    )
    ini = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function"
    run(pytester, ini, "asyncio", "aiohttp", passed=5)
