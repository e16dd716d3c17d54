"""What a run was measured on."""

from __future__ import annotations

import os
import pathlib
import platform
import time

# What decides which kernels run.
_FLAGS = (
    "avx2", "fma", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
)


def describe() -> dict:
    """Processor, memory and system, as far as they decide figures."""
    cpu = _cpuinfo()
    return {
        "processor": cpu.get("model name", platform.machine()),
        "cores": os.cpu_count(),
        "flags": [flag for flag in _FLAGS if flag in cpu.get("flags", "").split()],
        "caches": _caches(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "hypervisor": "hypervisor" in cpu.get("flags", "").split(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "none",
        "huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "system": f"{platform.system()} {platform.release()}",
    }


def load(seconds: float = 0.5) -> dict:
    """How busy the machine is with other things, looked at for so long."""
    before, idle_before = _processes(), _idle_seconds()
    time.sleep(seconds)
    after, idle_after = _processes(), _idle_seconds()
    used = {pid: (ticks - before[pid][1], name) for pid, (name, ticks) in after.items()
            if pid in before and pid != os.getpid()}
    ticks, name = max(used.values(), default=(0, ""))
    cores = ticks / os.sysconf("SC_CLK_TCK") / seconds
    busy = (os.cpu_count() or 1) - (idle_after - idle_before) / seconds
    return {
        "load_average": round(os.getloadavg()[0], 2),
        "busy_cores": round(max(busy, 0), 2),
        "busiest": {"process": name, "cores": round(cores, 2)} if cores > 0.05 else None,
    }


def in_words(machine: dict) -> str:
    """One line for people."""
    flags = machine["flags"]
    kinds = [name for name, flag in (
        ("AVX2", "avx2"), ("AVX-512", "avx512f"), ("AVX512-BF16", "avx512_bf16"),
        ("VNNI", "avx512_vnni"), ("AMX", "amx_tile")) if flag in flags]
    if "amx_tile" not in flags:
        kinds.append("no AMX")
    gib = machine["memory_bytes"] / 2**30
    return (f"{machine['processor']}, {machine['cores']} cores"
            f"{' of a virtual machine' if machine['hypervisor'] else ''}, {', '.join(kinds)}, "
            f"{', '.join(machine['caches'])}, {gib:.0f} GiB of memory")


def _cpuinfo() -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def _caches() -> list[str]:
    caches = []
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        if kind in ("Data", "Unified"):
            caches.append(f"L{level} {size}")
    return caches


def _idle_seconds() -> float:
    fields = _read("/proc/stat").splitlines()[0].split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def _processes() -> dict[int, tuple[str, int]]:
    """Name and ticks of processor time of each process."""
    processes = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        name, _, rest = _read(path).partition("(")[2].rpartition(")")
        fields = rest.split()
        if len(fields) > 12:
            processes[int(path.parent.name)] = (name, int(fields[11]) + int(fields[12]))
    return processes


def _read(path: str | pathlib.Path) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
