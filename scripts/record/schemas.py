"""What is recorded of a release from two of its servers and from its Go types: all of schemas/RELEASE but the policy.

`record` writes

    openapi/GROUP-VERSION.json   components.schemas of one group-version or page, without descriptions
    resources.json               groups, versions, resources, subresources, verbs, short names, categories, columns, the
                                 kind that is stored for each, and `offByDefault` for what only the first server serves
    release.json                 the version document, the names of the health checks, the kinds' versions that are
                                 deprecated, the feature gates that other gates need, the group-versions that the
                                 schemes know, the admission plugins in their order, the names of schemes
    initial_objects.json         the objects that a new server holds
    types.json                   Go types: field order, pointers, omitempty, protobuf numbers, internal forms
    validations.json             the rules that the types declare about their fields, from 1.37 on

and the release's part of ../feature_gates.json, the table of every release's gates, and of ../parameters.json, the
descriptions of parameters by type, the newest ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from scripts.record.api_server import ApiServer
from understudy.apiserver.serving.release import previews, releases, storage_version_hash
from understudy.machinery.releases.features import REMOVED, FeatureSpec
from understudy.machinery.releases.version import ByRelease, Version
from understudy.machinery.types import GroupVersionKind

SCHEMAS = Path(__file__).resolve().parents[2] / "src/understudy/schemas"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
META = "k8s.io/apimachinery/pkg/apis/meta"
DESCRIPTIONS = ("description", "x-kubernetes-validations")
GATES = "feature_gates.json"
PARAMETERS = "parameters.json"
PAGES = ("api", "apis", "version")  # whose documents have types of their own; those of groups have some of `apis`
# The types whose fields are parameters of an operation, by its `x-kubernetes-action`.
OPTIONS = {
    "list": "ListOptions",
    "post": "CreateOptions",
    "put": "UpdateOptions",
    "patch": "PatchOptions",
    "delete": "DeleteOptions",
}
# Resources whose objects are no facts of a release: those of what is served, of one server, of a while.
NOT_INITIAL = {
    ("internal.apiserver.k8s.io", "storageversions"),
    ("coordination.k8s.io", "leases"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
}
API_SERVICES = ("apiregistration.k8s.io", "apiservices")
PORT = 6443  # where a server is said to listen
OF_ONE_SERVER = ("uid", "resourceVersion", "creationTimestamp")
HEALTH = ("healthz", "livez", "readyz")

# The fields of the version document that tell how a server was built, with the values that stand for any build. The
# version of Go is that of the builds that are published.
BUILD = {
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "compiler": "gc",
    "platform": "linux/amd64",
}

Entry: TypeAlias = tuple[str, str, bool, bool]  # the first release that it holds for, stage, default, locked
Table: TypeAlias = dict[str, list[Entry]]  # by gate, oldest first


def without_descriptions(node: Any, *, names: bool = False) -> Any:
    """Return part of a schema without descriptions. With `names`, the keys are names of fields, and all are kept."""
    if isinstance(node, dict):
        kept = {k: v for k, v in node.items() if names or k not in DESCRIPTIONS or not isinstance(v, str)}
        return {k: without_descriptions(v, names=not names and k in ("properties", "schemas")) for k, v in kept.items()}
    if isinstance(node, list):
        return [without_descriptions(v) for v in node]
    return node


def openapi(server: ApiServer) -> dict[str, Any]:
    """Return {file name: document} of every group-version, and of the pages that answer with types."""
    out = {}
    for path, where in server.get("/openapi/v3")["paths"].items():
        schemas = server.get(where["serverRelativeURL"]).get("components", {}).get("schemas")
        if schemas and (path in PAGES or path.count("/") >= (2 if path.startswith("apis/") else 1)):
            out[path.replace("/", "__") + ".json"] = {"components": {"schemas": without_descriptions(schemas)}}
    return out


def parameters(core: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return {type: {field: description}} of the types whose fields are parameters, from the core group's document."""
    out: dict[str, dict[str, str]] = {}
    for path, item in core["paths"].items():
        for operation in (value for method, value in item.items() if method != "parameters"):
            action, kind = operation.get("x-kubernetes-action"), operation.get("x-kubernetes-group-version-kind", {})
            name = "PodLogOptions" if path.endswith("/log") else OPTIONS.get(action)
            name = kind["kind"] if action == "connect" else name
            named = [*item["parameters"], *operation.get("parameters", ())] if name else []
            fields = {each["name"]: each["description"] for each in named if each["in"] == "query"}
            out.setdefault(name or "", {}).update(fields)
    # Only definitions have operations with GetOptions; the description of its field is that of the list's.
    out["GetOptions"] = {"resourceVersion": out["ListOptions"]["resourceVersion"]}
    return {
        name: {field: text for field, text in sorted(fields.items()) if field != "pretty"}
        for name, fields in sorted(out.items())
        if name
    }


def discovered(server: ApiServer) -> dict[str, list[dict[str, Any]]]:
    """Return {group: versions}, each with its resources, in the order of discovery."""
    groups = [group for path in ("/api", "/apis") for group in server.get(path, AGGREGATED)["items"]]
    return {group["metadata"].get("name", ""): group["versions"] for group in groups}


def served_by_default(with_default_gates: ApiServer) -> set[tuple[str, str, str]]:
    """Return (group, version, resource) of what a server serves that was started without `--runtime-config`."""
    return {
        (group, version["version"], resource["resource"])
        for group, versions in discovered(with_default_gates).items()
        for version in versions
        for resource in version["resources"]
    }


def resources(server: ApiServer, with_default_gates: ApiServer) -> list[dict[str, Any]]:
    """Return the groups with their versions and the resources of each, in the order of discovery."""
    groups = discovered(server)
    by_default = served_by_default(with_default_gates)
    group_versions = [(group, version["version"]) for group, versions in groups.items() for version in versions]
    for group, versions in groups.items():
        for version in versions:
            add_facts(server, group, version, group_versions)
            for resource in version["resources"]:
                if (group, version["version"], resource["resource"]) not in by_default:
                    resource["offByDefault"] = True
    return [
        {
            "group": group,
            "versions": [{name: version[name] for name in ("version", "resources")} for version in versions],
        }
        for group, versions in groups.items()
    ]


def add_facts(
    server: ApiServer, group: str, version: dict[str, Any], group_versions: Collection[tuple[str, str]]
) -> None:
    """Add the columns of tables, and the kind that is stored, to the resources of a version in aggregated discovery."""
    path = f"/apis/{group}/{version['version']}" if group else f"/api/{version['version']}"
    plain = {resource["name"]: resource for resource in server.get(path)["resources"]}
    for resource in version["resources"]:
        if "list" in resource["verbs"]:
            table = server.get(f"{path}/{resource['resource']}?limit=1", TABLE)
            resource["columns"] = table["columnDefinitions"]
        storage_hash = plain[resource["resource"]].get("storageVersionHash")
        if storage_hash is not None:
            kind = GroupVersionKind(group, version["version"], resource["responseKind"]["kind"])
            resource["stored"] = stored(kind, storage_hash, group_versions)


def stored(kind: GroupVersionKind, storage_hash: str, group_versions: Collection[tuple[str, str]]) -> GroupVersionKind:
    """Return the kind that is stored for a kind, found by the hash that discovery shows of it.

    It may be that of another version or group, or of v1beta1, which need not be served any more. Raises LookupError.
    """
    others = [*group_versions, (kind.group, "v1beta1")]
    for candidate in [kind, *(GroupVersionKind(*group_version, kind.kind) for group_version in others)]:
        if storage_version_hash(candidate) == storage_hash:
            return candidate
    raise LookupError(f"no group-version has the storage hash {storage_hash} of {kind}")


def facts(
    version: Version, server: ApiServer, with_default_gates: ApiServer, types: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of release.json."""
    return {
        "version": server.get("/version") | BUILD | {"goVersion": types["go"]},
        "healthChecks": {name: health_checks(with_default_gates, name) for name in HEALTH},
        "deprecated": deprecated(version, types["deprecated"], discovered(server)),
        "gateDependencies": {gate: needed for gate, needed in sorted((types["depends"] or {}).items()) if needed},
        "groupVersions": registered(types["kinds"]),
        "admissionPlugins": types["plugins"],
        "schemes": types["schemes"],
    }


def registered(kinds: Iterable[str]) -> list[str]:
    """Return "group/version" of everything that the schemes know, which has the options of every request."""
    known = (kind.rpartition("/") for kind in kinds)
    return sorted(name for name, _, kind in known if kind == "DeleteOptions" and not name.endswith("/__internal"))


def deprecated(
    release: Version, lifecycles: Mapping[str, list[str]], groups: Mapping[str, list[dict[str, Any]]]
) -> dict[str, list[str]]:
    """Return the lifecycles of `gotypes` of the kinds that a release serves and that are deprecated by then."""
    return {
        key: lifecycles[key]
        for group, versions in groups.items()
        for version in versions
        for resource in version["resources"]
        if (key := f"{group}/{version['version']}/{resource['responseKind']['kind']}") in lifecycles
        and lifecycles[key][0]
        and Version.parse(lifecycles[key][0]) <= release
    }


def initial_objects(server: ApiServer, with_default_gates: ApiServer) -> list[dict[str, Any]]:
    """Return the objects that a new server holds, without what differs from server to server.

    APIServices, and objects of kinds that are not served by default, are those of the server that serves everything.
    """
    by_default = {(group, resource) for group, _, resource in served_by_default(with_default_gates)} - {API_SERVICES}
    objects = []
    for group, versions in discovered(server).items():
        for version, resource in preferred_resources(versions):
            name = (group, resource["resource"])
            if "list" in resource["verbs"] and name not in NOT_INITIAL:
                objects += stored_objects(
                    with_default_gates if name in by_default else server, group, version, resource
                )
    return objects


def in_recorded_order(version: Version, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return initial objects as they were recorded last, of the release or the one before; new ones are last of a kind.

    A server writes those of a kind in any order.
    """
    paths = (SCHEMAS / str(each) / "initial_objects.json" for each in (version, version.previous))
    recorded: list[dict[str, Any]] = next((json.loads(path.read_text()) for path in paths if path.exists()), [])
    places = {identity(obj): place for place, obj in enumerate(recorded)}
    kinds = list(dict.fromkeys(obj["kind"] for obj in objects))
    return sorted(objects, key=lambda obj: (kinds.index(obj["kind"]), places.get(identity(obj), len(places))))


def identity(obj: dict[str, Any]) -> tuple[str, str, str]:
    """Return kind, namespace and name of an object."""
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


def preferred_resources(versions: Iterable[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each resource of a group once, with the first version that has it."""
    known: set[str] = set()
    for version in versions:
        for resource in version["resources"]:
            if resource["resource"] not in known:
                known.add(resource["resource"])
                yield version["version"], resource


def stored_objects(server: ApiServer, group: str, version: str, resource: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a resource in the order of their last writes, without what differs between servers."""
    api_version = f"{group}/{version}" if group else version
    path = f"/apis/{api_version}" if group else f"/api/{version}"
    head = {"apiVersion": api_version, "kind": resource["responseKind"]["kind"]}
    items = server.get(f"{path}/{resource['resource']}")["items"]
    items.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
    return [without_times(head | item) for item in items]


def without_times(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without uid, resourceVersion, times and the port; null stands for the time of a condition."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in OF_ONE_SERVER}
    for entry in metadata.get("managedFields", ()):
        del entry["time"]
    for condition in obj.get("status", {}).get("conditions", ()):
        condition["lastTransitionTime"] = None
    if obj["kind"] == "Service":
        obj["spec"]["ports"][0]["targetPort"] = PORT
    return obj | {"metadata": metadata}


def health_checks(server: ApiServer, name: str) -> list[str]:
    """Return the names of the checks below `healthz`, `livez` or `readyz`, in the order of their list."""
    return re.findall(r"^\[[+-]\](\S+)", server.text(f"/{name}?verbose"), re.M)


def gates(server: ApiServer, locked: Collection[str]) -> dict[str, FeatureSpec]:
    """Return {gate: spec} of a server that was started without gates."""
    lines = re.findall(r'^kubernetes_feature_enabled\{name="(\w+)",stage="(\w*)"\} (\d)', server.text("/metrics"), re.M)
    return {name: FeatureSpec(stage, value == "1", name in locked) for name, stage, value in lines}


def record_gates(version: Version, server: ApiServer, locked: Collection[str]) -> None:
    """Write the gates of a server into the table of every release's gates, one gate a line.

    Those of previews go, when the release itself is recorded.
    """
    table: Table = json.loads((SCHEMAS / GATES).read_text())
    others = [each for each in (*releases(), *previews()) if each[:2] != version[:2]]
    table = gates_over_time(table, others, version, gates(server, locked))
    lines = (f"{json.dumps(name)}: {json.dumps(history)}" for name, history in table.items())
    (SCHEMAS / GATES).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def record_parameters(server: ApiServer) -> None:
    """Write the descriptions of parameters, and keep those of fields that this release does not have."""
    url = server.get("/openapi/v3")["paths"]["api/v1"]["serverRelativeURL"]
    texts: dict[str, dict[str, str]] = json.loads((SCHEMAS / PARAMETERS).read_text())
    for name, fields in parameters(server.get(url)).items():
        texts[name] = texts.get(name, {}) | fields
    (SCHEMAS / PARAMETERS).write_text(json.dumps(texts, indent=1, sort_keys=True) + "\n")


def gates_over_time(
    table: Table, known: Collection[Version], release: Version, recorded: Mapping[str, FeatureSpec]
) -> Table:
    """Return the table with the recorded gates of one release.

    `known` are the releases that the table has: one that changed no gate has no entry, and keeps the gates that it has.
    """
    out: Table = {}
    for name in sorted(table.keys() | recorded.keys()):
        entries = table.get(name, ())
        history = ByRelease({Version.parse(since): FeatureSpec(stage, on, fix) for since, stage, on, fix in entries})
        specs = {version: history.get(version) for version in known} | {release: recorded.get(name)}
        if history_of_gate := changes(specs):  # a gate of previews only may never come
            out[name] = history_of_gate
    return out


def changes(specs: Mapping[Version, FeatureSpec | None]) -> list[Entry]:
    """Return the history of a gate, as entries [since, stage, default, locked], from what it is in each release.

    A gate that a release does not have any more (None) is removed, and keeps its last default.
    """
    history: list[Entry] = []
    before: FeatureSpec | None = None
    for version, spec in sorted(specs.items()):
        if spec is None and before is not None:
            spec = FeatureSpec(REMOVED, before.default, locked=True)
        if spec is not None and spec != before:
            history.append((str(version), *spec))
        before = spec
    return history


def types(everything: dict[str, Any], groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the types of `gotypes` that the served group-versions and their internal forms refer to."""
    served = {(g["group"], v["version"]) for g in groups for v in g["versions"]}
    served |= {(g["group"], "__internal") for g in groups}
    kinds = {
        key: name
        for key, name in everything["kinds"].items()
        if tuple(key.split("/")[:2]) in served
        or key.startswith(("autoscaling/v1/", "/v1/", "meta.k8s.io/v1/", "policy/v1/"))
        or (key.endswith(("/AdmissionReview", "/ConversionReview")) and "__internal" not in key)
    }
    extra = ("Status", "Table", "APIResourceList", "APIGroupList", "APIVersions", "PartialObjectMetadataList")
    names = [*kinds.values(), *(f"{META}/v1.{name}" for name in extra), f"{META}/v1beta1.PartialObjectMetadataList"]
    names += [f"k8s.io/api/apidiscovery/{version}.APIGroupDiscoveryList" for version in ("v2", "v2beta1")]
    reached = reachable(everything, names)
    keep = {part: {k: v for k, v in everything[part].items() if k in reached} for part in ("structs", "scalars")}
    return {"kinds": kinds, **keep, "custom": sorted(reached & set(everything["custom"]))}


def validations(everything: Mapping[str, Any], go_types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules of `govalidations` about the types of a release."""
    known = go_types["structs"].keys() | go_types["scalars"].keys()
    return {part: {name: rules[name] for name in sorted(rules.keys() & known)} for part, rules in everything.items()}


def reachable(everything: dict[str, Any], names: Iterable[str]) -> set[str]:
    """Return the names of the types that some types of `gotypes` refer to, at any depth, and their own."""
    reached: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        while name.startswith(("*", "[]", "map[")):
            if name.startswith("map["):
                key, _, name = name[4:].partition("]")
                pending.append(key)
            else:
                name = name.removeprefix("*").removeprefix("[]")
        if name in reached:
            continue
        reached.add(name)
        if name in everything["structs"]:
            pending += [field[3] for field in everything["structs"][name]]
        elif name in everything["scalars"]:
            pending.append(everything["scalars"][name])
    return reached


def record(
    version: Version,
    server: ApiServer,
    with_default_gates: ApiServer,
    go_types: dict[str, Any],
    declared: Mapping[str, Any] | None,
) -> None:
    """Write all that two servers of a release and its Go types tell.

    server              serves every group-version, with all alpha and beta feature gates
    with_default_gates  was started without flags; nobody has written to either
    go_types            what `gotypes` prints, with the names of `schemes`
    declared            what `govalidations` prints, None for a release that does not enforce it
    """
    groups = resources(server, with_default_gates)
    files = {f"openapi/{name}": document for name, document in openapi(server).items()}
    files["resources.json"] = groups
    files["initial_objects.json"] = in_recorded_order(version, initial_objects(server, with_default_gates))
    files["types.json"] = types(go_types, groups)
    if declared is not None:
        files["validations.json"] = validations(declared, files["types.json"])
    texts = {name: json.dumps(each, separators=(",", ":"), ensure_ascii=False) for name, each in files.items()}
    content = facts(version, server, with_default_gates, go_types)
    texts["release.json"] = json.dumps(content, indent=1)
    written = sum(write(version, name, text + "\n") for name, text in texts.items())
    record_parameters(server)
    record_gates(version, with_default_gates, go_types["locked"])
    print(f"{version}: {written} files, {sum(len(g['versions']) for g in groups)} group-versions")


def write(version: Version, name: str, text: str) -> bool:
    """Write a file of a release, and report whether there is one now: a preview has none that the release before has
    just so."""
    path, before = SCHEMAS / str(version) / name, SCHEMAS / str(version.previous) / name
    path.unlink(missing_ok=True)
    if version.is_preview and before.exists() and before.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True
