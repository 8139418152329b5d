"""A whole control plane for a laptop, in one process, and an account of what happens to each claim in it.

account     turns changes of objects into lines
why_not     says why a claim gets no devices
nodes       keeps a kubelet for each node
controllers names the controllers that run
cluster     puts it all behind a server
"""
