// The life of an object as data: its writes in their order, and for a claim how far it has come.

import { conditionChanges, fieldChanges, timeOfWrite, titleOf, writersOf } from "./changes.js";

// Return the writes of an object, the oldest first, given its revisions as a source tells them.
export function writesOf({ since, versions }) {
  let last = null;
  return versions.map((version) => {
    const { revision, deleted, object, request } = version;
    const before = last?.metadata.uid === object.metadata.uid ? last : null;
    const isCompared = before && !deleted;
    const changes = isCompared ? fieldChanges(before, object) : [];
    const conditions = isCompared ? conditionChanges(before, object) : [];
    const title = titleOf(before, version, since, changes);
    const writers = isCompared || title === "created" ? writersOf(before, object, changes) : [];
    const said = deleted ? "" : timeOfWrite(before, object, writers, conditions);
    const time = request ? new Date(request.time * 1000).toISOString() : said;
    last = deleted ? null : object;
    return { revision, deleted, object, title, changes, conditions, writers, time, request };
  });
}

// Return the writes of the last object of a name: there may have been others before.
export function lastLife(writes) {
  const uid = writes.at(-1)?.object.metadata.uid;
  return writes.filter(({ object }) => object.metadata.uid === uid);
}

// Return the last time for which something held: {began, ended}, two writes; no `ended` if it holds still.
function stretch(writes, holds) {
  let found = null;
  for (const write of writes) {
    const is = !write.deleted && holds(write.object);
    if (is && (!found || found.ended)) found = { began: write, ended: null };
    if (!is && found && !found.ended) found = { ...found, ended: write };
  }
  return found;
}

// --- claims --------------------------------------------------------------------------------------

const POD_CLAIM = "resource.kubernetes.io/pod-claim-name"; // an annotation
const isPod = ({ apiGroup = "", resource }) => !apiGroup && resource === "pods";
const ownersOf = (claim) => (claim.metadata.ownerReferences ?? []).filter((owner) => owner.kind === "Pod" && owner.apiVersion === "v1");
const reserversOf = (claim) => (claim.status?.reservedFor ?? []).filter(isPod);
const devicesOf = (claim) => claim.status?.allocation?.devices?.results ?? [];

// Return the names of the pods that a claim was ever made or reserved for.
export function podsOf(writes) {
  return [...new Set(writes.flatMap(({ object }) => [...ownersOf(object), ...reserversOf(object)].map((each) => String(each.name))))];
}

// Return how far a claim has come: [{name, about, stretch}], `about` a list of {text, kind?, name?}: what has a kind is
// a link. A stage that was never reached has no stretch. `pods` are the writes of its pods, by their names.
export function stagesOf(writes, pods) {
  const allocated = stretch(writes, (claim) => Boolean(claim.status?.allocation));
  const reserved = stretch(writes, (claim) => Boolean(claim.status?.reservedFor?.length));
  const claim = writes[0].object;
  const owners = ownersOf(claim).map((owner) => ({ text: String(owner.name), kind: "pods", name: String(owner.name) }));
  const consumers = (reserved?.began.object.status.reservedFor ?? []).map((each) =>
    ({ text: isPod(each) ? String(each.name) : `${each.resource} ${each.name}`, ...(isPod(each) && { kind: "pods", name: String(each.name) }) }));
  return [
    { name: "Template", about: templatesOf(claim, pods), stretch: null },
    { name: "Created", about: owners, stretch: stretch(writes, () => true) },
    { name: "Allocated", about: devicesOf(allocated?.began.object ?? {}).map((each) => ({ text: `${each.driver}/${each.pool}/${each.device}` })), stretch: allocated },
    { name: "Reserved", about: consumers, stretch: reserved },
    preparation(writes, reserved, pods),
  ];
}

// Return the template that a claim was made from: the pod that owns it names it.
function templatesOf(claim, pods) {
  const claimName = claim.metadata.annotations?.[POD_CLAIM];
  const specs = ownersOf(claim).flatMap((owner) => (pods.get(String(owner.name)) ?? []).flatMap(({ object }) => object.spec?.resourceClaims ?? []));
  const template = specs.find((each) => each.name === claimName)?.resourceClaimTemplateName;
  return template ? [{ text: String(template), kind: "resourceclaimtemplates", name: String(template) }] : [];
}

// Return the stage of a claim whose devices are prepared: the sandbox of a pod that has it reserved runs.
function preparation(writes, reserved, pods) {
  const names = (reserved?.began.object.status.reservedFor ?? []).filter(isPod).map((each) => String(each.name));
  const runs = ({ status }) => (status?.conditions ?? []).some((each) => each.type === "PodReadyToStartContainers" && each.status === "True");
  const found = names.map((name) => [name, stretch(pods.get(name) ?? [], runs)]).find(([, each]) => each);
  const reports = (writes.at(-1).object.status?.devices ?? []).map((each) => ({ text: `${each.driver} reports ${each.device}` }));
  return { name: "Prepared", about: [...(found ? [{ text: found[0], kind: "pods", name: found[0] }] : []), ...reports], stretch: found?.[1] ?? null };
}

const TELLING = [["spec", "nodeName"], ["status", "phase"], ["status", "resourceClaimStatuses"], ["status", "conditions"]];

// Return what a pod's writes tell about its claims, without the rest.
export function tellingWrites(writes) {
  const tells = ({ path }) => TELLING.some((start) => start.every((step, i) => path[i] === step));
  return writes.map((write) => ({ ...write, changes: write.changes.filter(tells) }))
    .filter((write) => write.changes.length || !/change/.test(write.title));
}
