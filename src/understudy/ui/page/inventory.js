// Devices by the nodes and pools that have them, with who holds them, made of slices and claims.

import { nameOf } from "./text.js";

const UNITS = { m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };
export const EVERYWHERE = "All nodes", SELECTED = "Nodes by selector"; // no names of nodes: those have no capitals

// Return a quantity as a number, exact enough for a bar.
export function amountOf(quantity) {
  const [, number, unit] = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(String(quantity ?? 0)) ?? [null, 0, ""];
  return Number(number) * (UNITS[unit] ?? 1);
}

// Return {places, devices, pending}: places are nodes with their pools, devices all of them, pending the claims that wait.
export function inventoryOf(slices, claims, nodes) {
  const holders = holdersOf(claims);
  const pools = poolsOf(slices);
  const places = new Map(nodes.map((node) => [node.metadata.name, { name: node.metadata.name, node, pools: [] }]));
  const devices = [];
  for (const pool of pools) {
    const here = new Map(); // the part of the pool at each place
    for (const slice of pool.slices) {
      for (const device of slice.spec.devices ?? []) {
        const made = deviceOf(device, slice, pool, holders);
        devices.push(made);
        if (!here.has(made.place)) here.set(made.place, { ...pool, devices: [] });
        here.get(made.place).devices.push(made);
      }
    }
    countersOf(pool, devices.filter((device) => device.pool === pool));
    for (const [name, part] of here) {
      part.sets = pool.sets;
      if (!places.has(name)) places.set(name, { name, node: null, pools: [] });
      places.get(name).pools.push(part);
    }
  }
  const pending = claims.filter((claim) => !claim.status?.allocation);
  return { places: [...places.values()], devices, pending };
}

// Return who holds each device: DRIVER/POOL/DEVICE to its holders.
function holdersOf(claims) {
  const holders = new Map();
  for (const claim of claims) {
    for (const result of claim.status?.allocation?.devices?.results ?? []) {
      const key = `${result.driver}/${result.pool}/${result.device}`;
      const classes = (claim.spec?.devices?.requests ?? []).flatMap((request) =>
        [request, request.exactly, ...(request.firstAvailable ?? []).map((each) => ({ ...each, name: `${request.name}/${each.name}` }))]
          .filter((each) => each?.deviceClassName && (each.name ?? request.name) === result.request).map((each) => each.deviceClassName));
      const holder = {
        claim, name: nameOf(claim.metadata), namespace: claim.metadata.namespace, request: result.request, className: classes[0] ?? "",
        isAdmin: Boolean(result.adminAccess), consumed: result.consumedCapacity ?? {},
        pods: (claim.status.reservedFor ?? []).filter((user) => user.resource === "pods").map((user) => user.name),
      };
      holders.set(key, [...(holders.get(key) ?? []), holder]);
    }
  }
  return holders;
}

// Return the pools with the slices of their newest generation.
function poolsOf(slices) {
  const pools = new Map();
  for (const slice of slices) {
    const { driver, pool: { name, generation = 0, resourceSliceCount: expected = 1 } } = slice.spec;
    const key = `${driver}/${name}`;
    const pool = pools.get(key);
    if (!pool || generation > pool.generation) pools.set(key, { key, name, driver, generation, expected, slices: [slice] });
    else if (generation === pool.generation) pool.slices.push(slice);
  }
  return [...pools.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
}

function deviceOf(device, slice, pool, allHolders) {
  const body = { ...device, ...device.basic };
  const key = `${pool.key}/${device.name}`;
  const holders = allHolders.get(key) ?? [];
  const where = slice.spec.perDeviceNodeSelection ? body : slice.spec;
  const place = where.nodeName || (where.allNodes ? EVERYWHERE : SELECTED);
  const taints = body.taints ?? [];
  const users = holders.filter((holder) => !holder.isAdmin);
  const state = users.length ? "held" : taints.some((taint) => taint.effect !== "None") ? "tainted" : "free";
  return { key, name: device.name, body, slice, pool, place, holders, taints, state, consumes: body.consumesCounters ?? [],
    capacities: capacitiesOf(body, users) };
}

// Return the capacities of a device, with how much of them is in use where several may share it.
function capacitiesOf(body, users) {
  return Object.entries(body.capacity ?? {}).map(([name, capacity]) => {
    const total = capacity?.value ?? capacity;
    const used = users.reduce((sum, user) => sum + amountOf(user.consumed[name]), 0);
    return { name, total, part: body.allowMultipleAllocations ? used / (amountOf(total) || 1) : null, users: users.length };
  });
}

// Give a pool its shared counters, and block devices for which they are not enough.
function countersOf(pool, devices) {
  const sets = new Map();
  for (const slice of pool.slices) {
    for (const set of slice.spec.sharedCounters ?? []) {
      sets.set(set.name, Object.entries(set.counters ?? {}).map(([name, counter]) => ({ name, total: counter.value, size: amountOf(counter.value), used: 0 })));
    }
  }
  const each = function* (device) {
    for (const consumed of device.consumes) {
      for (const [name, counter] of Object.entries(consumed.counters ?? {})) {
        const found = sets.get(consumed.counterSet)?.find((known) => known.name === name);
        if (found) yield [found, amountOf(counter.value)];
      }
    }
  };
  for (const device of devices) {
    if (device.state === "held") for (const [counter, amount] of each(device)) counter.used += amount;
  }
  for (const device of devices) {
    if (device.state === "free" && [...each(device)].some(([counter, amount]) => counter.used + amount > counter.size)) device.state = "blocked";
  }
  pool.sets = sets;
}

// Return the devices of a part of a pool in groups: partitions under the set of counters that they share.
export function groupsOf(part) {
  const groups = new Map();
  for (const device of part.devices) {
    const set = device.consumes[0]?.counterSet ?? "";
    if (!groups.has(set)) groups.set(set, []);
    groups.get(set).push(device);
  }
  const size = (device) => device.consumes.reduce((sum, set) => sum + Object.values(set.counters ?? {}).reduce((all, counter) => all + amountOf(counter.value), 0), 0);
  return [...groups].map(([set, devices]) => ({
    set, counters: part.sets?.get(set) ?? [], devices: set ? devices.sort((a, b) => size(b) - size(a)) : devices,
  }));
}
