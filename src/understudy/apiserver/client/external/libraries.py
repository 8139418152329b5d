"""Makes the clients of Python libraries that a test may have installed. None of them is imported before."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

from understudy.machinery.types import NamedTuple
from understudy.machinery.util.spelling import did_you_mean

Library = Literal[
    "kubernetes", "kubernetes_asyncio", "kr8s", "kr8s.asyncio", "lightkube", "lightkube.AsyncClient"
]  # each by the name in Python of what makes the client


class _Maker(NamedTuple):
    """Makes the client of a library: a function of a module, given the module and the path of a kubeconfig."""

    module: str
    make: Callable[[Any, str], Any]


_MAKERS: dict[str, _Maker] = {
    "kubernetes": _Maker("kubernetes.config", lambda config, path: config.new_client_from_config(path)),
    "kubernetes_asyncio": _Maker("kubernetes_asyncio.config", lambda config, path: config.new_client_from_config(path)),
    "kr8s": _Maker("kr8s", lambda kr8s, path: kr8s.api(kubeconfig=path)),
    "kr8s.asyncio": _Maker("kr8s.asyncio", lambda kr8s, path: kr8s.api(kubeconfig=path)),
    "lightkube": _Maker("lightkube", lambda lib, path: lib.Client(config=lib.KubeConfig.from_file(path))),
    "lightkube.AsyncClient": _Maker("lightkube", lambda lib, path: lib.AsyncClient(lib.KubeConfig.from_file(path))),
}


def new_client(library: str, kubeconfig: str) -> Any:
    """Return the client of a library, or the coroutine that the library makes it by.

    Raises ValueError for a library that is unknown, ModuleNotFoundError for one that is not installed.
    """
    __tracebackhide__ = True
    if library not in _MAKERS:
        raise ValueError(f"want a client of {', '.join(_MAKERS)}, not {library!r}{did_you_mean(library, _MAKERS)}")
    maker, package = _MAKERS[library], library.partition(".")[0]
    try:
        module = import_module(maker.module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(f"{package} is not installed: pip install {package}", name=package) from None
    return maker.make(module, kubeconfig)
