# SPDX-License-Identifier: Apache-2.0
"""The part of libbpf that xpumeter uses, through ctypes. No bpf(2) call is made anywhere else.

Signatures: libbpf 1.1 and later, bpf/libbpf.h and bpf/bpf.h. Everything raises OSError with the
kernel's errno, which may be one that no table has (524, ENOTSUPP).
"""

import ctypes as c
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Self

from xpumeter.errors import HostError

_LogCallback = c.CFUNCTYPE(c.c_int, c.c_int, c.c_char_p, c.c_void_p)
_SampleCallback = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_size_t)

_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    # name: result, arguments
    "libbpf_set_print": (c.c_void_p, _LogCallback),
    "bpf_object__open_file": (c.c_void_p, c.c_char_p, c.c_void_p),
    "bpf_object__find_program_by_name": (c.c_void_p, c.c_void_p, c.c_char_p),
    "bpf_object__find_map_fd_by_name": (c.c_int, c.c_void_p, c.c_char_p),
    "bpf_object__next_program": (c.c_void_p, c.c_void_p, c.c_void_p),
    "bpf_object__load": (c.c_int, c.c_void_p),
    "bpf_object__close": (None, c.c_void_p),
    "bpf_program__name": (c.c_char_p, c.c_void_p),
    "bpf_program__set_autoload": (c.c_int, c.c_void_p, c.c_bool),
    "bpf_program__fd": (c.c_int, c.c_void_p),
    "bpf_program__attach": (c.c_void_p, c.c_void_p),
    "bpf_program__attach_iter": (c.c_void_p, c.c_void_p, c.c_void_p),
    "bpf_link__pin": (c.c_int, c.c_void_p, c.c_char_p),
    "bpf_link__destroy": (c.c_int, c.c_void_p),
    "bpf_map_update_elem": (c.c_int, c.c_int, c.c_void_p, c.c_void_p, c.c_uint64),
    "bpf_obj_pin": (c.c_int, c.c_int, c.c_char_p),
    "bpf_obj_get": (c.c_int, c.c_char_p),
    "ring_buffer__new": (c.c_void_p, c.c_int, _SampleCallback, c.c_void_p, c.c_void_p),
    "ring_buffer__epoll_fd": (c.c_int, c.c_void_p),
    "ring_buffer__consume": (c.c_int, c.c_void_p),
    "ring_buffer__free": (None, c.c_void_p),
}


class _IterLinkInfo(c.Structure):
    """union bpf_iter_link_info of linux/bpf.h, its largest member; only map_fd is set."""

    _fields_ = (("map_fd", c.c_uint32), ("unused", c.c_uint32 * 3))


class _IterAttachOpts(c.Structure):
    _fields_ = (
        ("sz", c.c_size_t),
        ("link_info", c.POINTER(_IterLinkInfo)),
        ("link_info_len", c.c_uint32),
    )


class Log:
    """What libbpf and the verifier said: every line, oldest first, without libbpf's prefix."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._libc = c.CDLL(None)
        self.callback = _LogCallback(self._print)

    def _print(self, level: int, text: bytes, arguments: int) -> int:
        if level > 1:  # LIBBPF_DEBUG: hundreds of lines of relocations
            return 0
        buffer = c.create_string_buffer(1 << 20)  # a verifier log comes as one message
        self._libc.vsnprintf(buffer, len(buffer), text, c.c_void_p(arguments))
        for line in buffer.value.decode(errors="replace").splitlines():
            self.lines.append(line.removeprefix("libbpf: "))
        return 0


@cache
def _library() -> tuple[c.CDLL, Log]:
    """Load libbpf once, its messages kept in the log.

    Raises:
        HostError: libbpf 1 is not installed.
    """
    try:
        library = c.CDLL("libbpf.so.1", use_errno=True)
    except OSError as error:
        raise HostError(
            f"libbpf cannot be loaded: {error}", hint="install it: apt-get install libbpf1"
        ) from error
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    log = Log()
    library.libbpf_set_print(log.callback)
    return library, log


def require() -> None:
    """Raise HostError where libbpf is not installed."""
    _library()


def _checked(result: int | None, what: str) -> int:
    """The result, if it is neither NULL nor negative."""
    if result is None or result < 0:
        # A negative result is the errno itself, and in libbpf 1 errno says the same.
        number = c.get_errno() if result is None else -result
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


class Link:
    """An attached program. It lives as long as this object, unless it is pinned."""

    def __init__(self, pointer: int, name: str) -> None:
        self._pointer, self.name = pointer, name

    def pin(self, path: Path) -> None:
        """Keep it attached after this process."""
        _checked(_library()[0].bpf_link__pin(self._pointer, os.fsencode(path)), f"pin {path}")

    def destroy(self) -> None:
        """Let go: the program is detached unless it is pinned."""
        _library()[0].bpf_link__destroy(self._pointer)


class Object:
    """A BPF object file: open, choose programs, load, attach. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        self._library, self._log = _library()
        self._log.lines.clear()
        self._pointer = _checked(
            self._library.bpf_object__open_file(os.fsencode(path), None), f"open {path}"
        )
        self._links: list[Link] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links:
            link.destroy()
        self._library.bpf_object__close(self._pointer)

    @property
    def log(self) -> list[str]:
        """What libbpf and the verifier said since the object was opened."""
        return self._log.lines

    def _program(self, name: str) -> int:
        found = self._library.bpf_object__find_program_by_name(self._pointer, name.encode())
        return _checked(found, f"program {name}")

    def load(self, programs: frozenset[str]) -> None:
        """Load all maps and only these programs: one that cannot load takes all others with it."""
        program = self._library.bpf_object__next_program(self._pointer, None)
        while program:
            name = self._library.bpf_program__name(program).decode()
            self._library.bpf_program__set_autoload(program, name in programs)
            program = self._library.bpf_object__next_program(self._pointer, program)
        _checked(self._library.bpf_object__load(self._pointer), "load")

    def attach(self, program: str) -> Link:
        """Attach where the program's section says."""
        pointer = self._library.bpf_program__attach(self._program(program))
        return self._keep(Link(_checked(pointer, f"attach {program}"), program))

    def attach_reader(self, program: str, of_map: str) -> Link:
        """Attach an iterator over a map; pinned, it is a file that anyone may read who may open it.

        Source: struct bpf_iter_attach_opts of bpf/libbpf.h.
        """
        info = _IterLinkInfo(map_fd=self.map_fd(of_map))
        options = _IterAttachOpts(c.sizeof(_IterAttachOpts), c.pointer(info), c.sizeof(info))
        pointer = self._library.bpf_program__attach_iter(self._program(program), c.byref(options))
        return self._keep(Link(_checked(pointer, f"attach {program}"), program))

    def _keep(self, link: Link) -> Link:
        self._links.append(link)
        return link

    def map_fd(self, name: str) -> int:
        """File descriptor of a loaded map; the object owns it."""
        found = self._library.bpf_object__find_map_fd_by_name(self._pointer, name.encode())
        return _checked(found, f"map {name}")

    def write(self, of_map: str, value: bytes) -> None:
        """Write element 0 of an array."""
        key = c.c_uint32(0)
        done = self._library.bpf_map_update_elem(self.map_fd(of_map), c.byref(key), value, 0)
        _checked(done, f"write {of_map}")

    def fill_slot(self, of_map: str, program: str) -> None:
        """Put a program behind a stub."""
        fd = self._library.bpf_program__fd(self._program(program))
        self.write(of_map, bytes(c.c_uint32(_checked(fd, f"program {program}"))))

    def pin_map(self, name: str, path: Path) -> None:
        """Keep a map, under a name, after this process."""
        pinned = self._library.bpf_obj_pin(self.map_fd(name), os.fsencode(path))
        _checked(pinned, f"pin {path}")

    def pin_program(self, name: str, path: Path) -> None:
        """Keep a program, under a name, after this process."""
        fd = _checked(self._library.bpf_program__fd(self._program(name)), f"program {name}")
        _checked(self._library.bpf_obj_pin(fd, os.fsencode(path)), f"pin {path}")


def open_pin(path: Path) -> int:
    """File descriptor of a pinned map or program; the caller's to close.

    Raises:
        OSError: EPERM where bpf(2) is refused, EACCES for a pin that is not this user's.
        HostError: libbpf is not installed.
    """
    return _checked(_library()[0].bpf_obj_get(os.fsencode(path)), f"open {path}")


class RingReader:
    """A pinned ring buffer; calls `on_record` with each record's bytes.

    Raises:
        OSError: EPERM where bpf(2) is refused (a container's seccomp profile); ENOENT without pin.
    """

    def __init__(self, path: Path, on_record: Callable[[bytes], None]) -> None:
        self._library, _ = _library()
        self._fd = open_pin(path)

        def sample(_context: int | None, data: int, size: int) -> int:
            on_record(c.string_at(data, size))
            return 0

        self._callback = _SampleCallback(sample)  # must outlive the ring
        ring = self._library.ring_buffer__new(self._fd, self._callback, None, None)
        try:
            self._ring = _checked(ring, f"map {path}")
        except OSError:
            os.close(self._fd)
            raise

    def fileno(self) -> int:
        """Readable while there are records, for select(2)."""
        return _checked(self._library.ring_buffer__epoll_fd(self._ring), "ring")

    def take(self) -> None:
        """Hand over the records that are there; never waits."""
        self._library.ring_buffer__consume(self._ring)

    def close(self) -> None:
        """Let go of the ring."""
        self._library.ring_buffer__free(self._ring)
        os.close(self._fd)
