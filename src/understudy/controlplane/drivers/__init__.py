"""Puts a DRA driver through what a node and a control plane do to it: `understudy drivers test`.

`cases` has one function for each thing that a driver has to stand, `node` what they use: a server of one release, a
kubelet, the driver's process and pods. `runner` runs them on each release, `reports` prints what came of it.
"""
