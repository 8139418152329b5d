"""Processes of this machine that stand in for those in containers."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import struct
import termios
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, suppress

from understudy.apiserver.server.webhooks.streams import remotecommand as names
from understudy.apiserver.server.webhooks.streams.remotecommand import CommandError, StreamOptions
from understudy.apiserver.server.webhooks.streams.stream import Stream, beside, copy, together
from understudy.controlplane.kubelet.server.descriptors import Descriptor, Keyboard
from understudy.machinery.golang.text import go_quote

Action = tuple[int, int, int] | tuple[int, int, str, int, int]  # of `posix_spawn`, upon a descriptor
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)  # signals that Python ignores
_KILLED = 128  # what a shell adds to the number of the signal that has ended a process


class Process:
    """A process in a session of its own, with all that it starts there.

    streams  its standard input and outputs by name, those that are asked for; of a terminal the output is both
    """

    def __init__(self, pid: int, streams: Mapping[str, Stream], terminal: Descriptor | None) -> None:
        self.streams = streams
        self._pid = pid
        self._terminal = terminal
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._wait, args=(asyncio.get_running_loop(),), daemon=True).start()

    @classmethod
    def start(cls, command: Sequence[str], environment: Mapping[str, str], options: StreamOptions) -> Process:
        """Start a command. Raises OSError if it cannot be started."""
        with ExitStack() as child:  # closes the ends that the process has
            if options.tty:
                return cls._at_terminal(command, environment, options, child)
            ours: dict[str, Descriptor] = {}
            actions: list[Action] = []
            for number, name in enumerate((names.STDIN, names.STDOUT, names.STDERR)):
                if name not in (*options.inputs(), *options.outputs):
                    actions.append((os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0))
                    continue
                reading, writing = os.pipe()
                theirs, own = (reading, writing) if name == names.STDIN else (writing, reading)
                child.callback(os.close, theirs)
                actions.append((os.POSIX_SPAWN_DUP2, theirs, number))
                ours[name] = Descriptor(own)
            try:
                return cls(_spawned(command, environment, actions), ours, None)
            except BaseException:
                for descriptor in ours.values():
                    descriptor.close()
                raise

    @classmethod
    def _at_terminal(
        cls, command: Sequence[str], environment: Mapping[str, str], options: StreamOptions, child: ExitStack
    ) -> Process:
        """Start a command whose terminal the client is: the first one that the leader of a session opens."""
        own, theirs = pty.openpty()
        child.callback(os.close, theirs)
        terminal = Descriptor(own)
        actions: list[Action] = [(os.POSIX_SPAWN_OPEN, 0, os.ttyname(theirs), os.O_RDWR, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, 0, number) for number in (1, 2)]
        streams: dict[str, Stream] = {names.STDIN: Keyboard(terminal), names.STDOUT: terminal}
        try:
            return cls(_spawned(command, {"TERM": "xterm", **environment}, actions), streams, terminal)
        except BaseException:
            terminal.close()
            raise

    async def end(self) -> int:
        """Wait for the end of the process, kill what it has left behind, and return its exit code."""
        await self._ended
        self.kill()
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else _KILLED - code

    def kill(self) -> None:
        """Kill the process, and all that it has started in its session's first group."""
        if self._pid:
            with suppress(ProcessLookupError, PermissionError):  # macOS has the latter for groups of zombies
                os.killpg(self._pid, signal.SIGKILL)

    def close(self) -> None:
        """Close what is left of its streams."""
        for stream in (self._terminal, *self.streams.values()):
            if stream is not None:
                stream.close()

    def resize(self, width: int, height: int) -> None:
        """Let the terminal have another size, if there is one."""
        if self._terminal is not None:
            termios.tcsetwinsize(self._terminal.number, (height, width))

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for the end in a thread. The process stays a zombie, so that nobody else gets its number."""
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._note_end)

    def _note_end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


def _spawned(command: Sequence[str], environment: Mapping[str, str], actions: Sequence[Action]) -> int:
    """Start a command in a session of its own, and return its number. Raises OSError."""
    if not command:
        raise OSError("no command specified")
    try:
        return os.posix_spawnp(
            command[0], [*command], environment, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_RESTORED
        )
    except FileNotFoundError:
        raise FileNotFoundError(f"exec: {go_quote(command[0])}: executable file not found in $PATH") from None


async def run(process: Process, streams: Mapping[str, Stream], killed: asyncio.Event) -> None:
    """Connect a process with the streams of a client until it ends, or is to be killed.

    Raises CommandError for another exit code than 0, ConnectionResetError if the client has gone. Whatever happens,
    the process has ended then.
    """
    ending = asyncio.create_task(process.end())
    try:
        async with beside(
            _kill_when(killed, process), _feed(streams, process), _resize(streams.get(names.RESIZE), process)
        ):
            outputs = [(name, stream) for name, stream in process.streams.items() if name != names.STDIN]
            await together(*(copy(stream, streams[name]) for name, stream in outputs if name in streams))
            code = await asyncio.shield(ending)
    finally:
        process.kill()
        await ending
        process.close()
    if code:
        raise CommandError(code, f"command terminated with exit code {code}")


async def _kill_when(killed: asyncio.Event, process: Process) -> None:
    await killed.wait()
    process.kill()


async def _feed(streams: Mapping[str, Stream], process: Process) -> None:
    """Write what the client sends to the process; pass over what that does not read."""
    source, target = streams.get(names.STDIN), process.streams.get(names.STDIN)
    if source is None or target is None:
        return
    with suppress(BrokenPipeError):
        await copy(source, target)
    while await source.read():
        pass


async def _resize(source: Stream | None, process: Process) -> None:
    """Let the terminal of a process have the sizes that the client tells."""
    if source is not None:
        async for width, height in sizes(source):
            process.resize(width, height)


async def sizes(source: Stream) -> AsyncIterator[tuple[int, int]]:
    """Yield the sizes of terminals that a stream tells (`TerminalSize`), until one that is none."""
    decoder, text = json.JSONDecoder(), ""
    while data := await source.read():
        text += data.decode("utf-8", "replace")
        while text := text.lstrip():
            try:
                size, end = decoder.raw_decode(text)
                text = text[end:]
                width, height = (int(size[name]) for name in ("Width", "Height"))
                struct.pack("HH", width, height)
            except json.JSONDecodeError:
                break  # the rest is still to come
            except (KeyError, TypeError, ValueError, struct.error):
                return
            yield width, height
