"""What a driver is told about the node it runs on, in the words of its command and by environment variables."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from understudy.machinery.types import dataclass
from understudy.machinery.util.regex import regex
from understudy.machinery.util.spelling import did_you_mean

# The environment variables that drivers of Kubernetes usually read, by the names of the fields of `Places`.
VARIABLES = {
    "kubeconfig": "KUBECONFIG",
    "node": "NODE_NAME",
    "registry": "KUBELET_REGISTRAR_DIRECTORY_PATH",
    "plugins": "KUBELET_PLUGINS_DIRECTORY_PATH",
    "cdi": "CDI_ROOT",
    "instance": "POD_UID",
}
_PLACEHOLDER = regex(r"\{(\w+)\}")


@dataclass(frozen=True)
class Places:
    """Paths and names of the node of a driver.

    kubeconfig  file with the way to the API server
    node        name of the Node
    root        folder of the kubelet, `/var/lib/kubelet` on a real node
    registry    folder for the registration socket: `plugins_registry` in the root
    plugins     folder for the driver's own files: `plugins` in the root
    cdi         folder for CDI files, `/var/run/cdi` on a real node
    instance    uid of the driver's pod, another one for each process that is started
    """

    kubeconfig: Path
    node: str
    root: Path
    registry: Path
    plugins: Path
    cdi: Path
    instance: str

    def environment(self) -> dict[str, str]:
        """Return the environment variables for a driver."""
        values = self._values()
        return {variable: values[name] for name, variable in VARIABLES.items()}

    def filled_in(self, words: Sequence[str]) -> list[str]:
        """Return the words of a command with values in place of `{kubeconfig}`, `{node}` and so on."""
        values = self._values()
        return [_PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), word) for word in words]

    def _values(self) -> Mapping[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


def words_of(command: str) -> list[str]:
    """Return the words of a command as a shell would split them. Raises ValueError for one that cannot be run."""
    words = shlex.split(command)
    if not words:
        raise ValueError("the driver's command is empty")
    known = Places.__dataclass_fields__
    for name in _PLACEHOLDER.findall(command):
        if name not in known:
            names = f"there are: {', '.join(known)}{did_you_mean(name, known)}"
            raise ValueError(f"unknown placeholder {{{name}}} in the driver's command, {names}")
    return words
