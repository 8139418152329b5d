"""Compare a kube-apiserver with another API server by random sequences of requests.

    python -m scripts.compare requests https://127.0.0.1:6443 http://127.0.0.1:8001 --token T --seed 1 --sequences 100
    python -m scripts.compare requests … --replay requests.jsonl        the requests that an earlier run has printed

A sequence has a namespace of its own and uses every verb, patch type, selector and option of claims, slices, pods and
config maps. Status, body and the important headers must agree, except for values that a server generates: uids,
versions, times, generated names, tokens, addresses, the order of owners and of causes. The first difference of a
sequence is shrunk to the fewest requests, parameters and fields that still differ, and printed as lines for --replay.

A request can refer to an earlier answer: {{3.metadata.uid}} is that field of the answer to request 3 of the same
server. {{ns}} is the namespace of the sequence, {{run}} a prefix for names outside of it. The exit status is 1 if
anything differs, or if the real server left more than a few requests without an answer: these end their sequence, and
nothing after them is compared.
"""

from __future__ import annotations

import argparse
import json

from scripts.common.comparing import MAX_UNANSWERED, Server, add_server_arguments, require_servers
from scripts.compare.sequences.generator import SequenceGenerator
from scripts.compare.sequences.report import compare
from scripts.compare.sequences.server_pair import ServerPair
from scripts.compare.sequences.steps import Step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument("--sequences", type=int, default=20)
    parser.add_argument("--length", type=int, default=25, help="requests in a sequence")
    parser.add_argument("--replay", type=argparse.FileType(), help="requests that were printed, instead of random ones")
    parser.add_argument("--known", default="", metavar="REGEX", help="hides the lines of differences that match")
    parser.add_argument("--no-shrinking", action="store_true")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    pair = ServerPair(*servers, options.known)
    if options.replay:
        replayed = [Step(**json.loads(line)) for line in options.replay if line.startswith("{")]
        sequences = {"replay": replayed} if replayed else {}
    else:
        seeds = range(options.seed, options.seed + options.sequences)
        sequences = {f"seed {seed}": SequenceGenerator(seed, pair.kinds).write(options.length) for seed in seeds}
    outcomes = compare(pair, sequences, not options.no_shrinking and not options.replay)
    verbs = ", ".join(f"{verb} {count}" for verb, count in pair.verbs.most_common())
    print(f"{outcomes['agree']} of {len(sequences)} sequences agree, {outcomes['unanswered']} were cut short; "
          f"{pair.verbs.total()} requests: {verbs}")  # fmt: skip
    return 0 if sequences and not outcomes["differ"] and pair.unanswered <= MAX_UNANSWERED else 1
