"""Running the binaries, and reading what they say."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

_WAIT_SECONDS = 120  # For a server to be ready.


class Failed(Exception):
    """A program that ended badly; says which, and its last words."""


@dataclasses.dataclass
class Run:
    """One benchmark of Google Benchmark, over its repetitions."""

    rates: list[float]  # Items a second of real time.
    # Items a second of processor time: the main thread's, or the process's where it asks for that.
    cpu_rates: list[float]
    real_seconds: list[float]  # Of one iteration.
    counters: dict[str, float]  # Medians.

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def cpu_rate(self) -> float:
        return statistics.median(self.cpu_rates)


_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_OWN_FIELDS = frozenset((
    "family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads",
    "iterations", "real_time", "cpu_time", "items_per_second",
))


@dataclasses.dataclass
class Programs:
    """The binaries of one build."""

    bin: pathlib.Path
    scratch: pathlib.Path

    def google_benchmark(
        self, name: str, pattern: str, *, min_time: float, repetitions: int = 1,
        flags: tuple[str, ...] = (), environment: dict[str, str] | None = None,
        timeout: float = 900,
    ) -> dict[str, Run]:
        """Benchmarks whose name matches, by name without what Google Benchmark adds.

        Repetitions of all take turns, so that a moment in which the machine is busy with other
        things does not fall on one benchmark alone.
        """
        out = self.scratch / f"{name}.json"
        self.run(
            name, f"--benchmark_filter={pattern}", f"--benchmark_min_time={min_time}",
            f"--benchmark_repetitions={repetitions}",
            f"--benchmark_enable_random_interleaving={'true' if repetitions > 1 else 'false'}",
            f"--benchmark_out={out}", "--benchmark_out_format=json", *flags,
            environment=environment, timeout=timeout)
        try:
            report = json.loads(out.read_text())
        except (OSError, ValueError) as error:
            raise Failed(f"{name} matched nothing with {pattern}") from error
        return _read_runs(report["benchmarks"])

    def run(
        self, name: str, *arguments: str, environment: dict[str, str] | None = None,
        timeout: float = 900, accept: tuple[int, ...] = (0,),
    ) -> tuple[str, str]:
        """What a program writes to standard output and standard error."""
        command = [str(self.bin / name), *arguments]
        try:
            done = subprocess.run(
                command, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace", timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{name} took more than {timeout:.0f} s") from error
        if done.returncode not in accept:
            raise Failed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout, done.stderr

    @contextlib.contextmanager
    def server(self, *flags: str) -> Iterator[Server]:
        """A server on free ports, from its start to its end; ready when this returns."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as directory:
            ports, log = pathlib.Path(directory, "ports"), pathlib.Path(directory, "log")
            command = [
                str(self.bin / "fermata-server"), "--grpc_address=127.0.0.1:0",
                "--http_address=127.0.0.1:0", f"--port_file={ports}", "--log_level=warning", *flags]
            started = time.monotonic()
            with log.open("wb") as errors:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
            try:
                yield Server.wait_for(self, process, ports, log, started)
            finally:
                process.terminate()
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


@dataclasses.dataclass
class Server:
    """A server that runs."""

    programs: Programs
    process: subprocess.Popen
    grpc: str
    http: str
    started: float  # Of the monotonic clock.
    ready_seconds: float  # From the start to being ready.

    @staticmethod
    def wait_for(programs: Programs, process: subprocess.Popen, ports: pathlib.Path,
                 log: pathlib.Path, started: float) -> Server:
        http = ""
        while True:
            if process.poll() is not None:
                raise Failed(f"fermata-server ended: {log.read_text(errors='replace')[-500:]}")
            if time.monotonic() - started > _WAIT_SECONDS:
                raise Failed(f"fermata-server was not ready within {_WAIT_SECONDS} s")
            with contextlib.suppress(OSError, ValueError):
                numbers = json.loads(ports.read_text())
                http = f"http://127.0.0.1:{numbers['http']}"
                with urllib.request.urlopen(f"{http}/readyz", timeout=5):
                    break
            time.sleep(0.005)
        return Server(programs, process, f"127.0.0.1:{numbers['grpc']}", http, started,
                      time.monotonic() - started)

    def command(self, *arguments: str, timeout: float = 300) -> None:
        """Runs the `fermata` command against this server."""
        self.programs.run("fermata", *arguments, "--server", self.grpc, timeout=timeout)

    def load(self, *flags: str, timeout: float = 900) -> dict:
        """The report of `fermata bench`."""
        out = self.programs.scratch / "load.json"
        out.unlink(missing_ok=True)
        # It ends with 1 when no request completed, which a short run with long answers may do.
        _, errors = self.programs.run(
            "fermata", "bench", "--server", self.grpc, "--metrics-url", f"{self.http}/metrics",
            "--output", str(out), *flags, timeout=timeout, accept=(0, 1))
        try:
            return json.loads(out.read_text())
        except (OSError, ValueError) as error:
            raise Failed(f"fermata bench {' '.join(flags)}: {errors[-500:]}") from error

    def cpu_seconds(self) -> float:
        """Processor time that the process has taken."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> tuple[int, int]:
        """Bytes of memory that the process holds, and has held at most."""
        fields = {}
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            fields[name] = value.split()
        return int(fields["VmRSS"][0]) * 1024, int(fields["VmHWM"][0]) * 1024


def _read_runs(entries: list[dict]) -> dict[str, Run]:
    by_name: dict[str, list[dict]] = {}
    for entry in entries:
        if entry.get("error_occurred"):
            raise Failed(f"{entry['name']}: {entry['error_message']}")
        if entry.get("run_type") == "iteration":
            name = entry["run_name"].removesuffix("/real_time").removesuffix("/process_time")
            by_name.setdefault(name, []).append(entry)
    runs = {}
    for name, each in by_name.items():
        rates = [entry.get("items_per_second", 0.0) for entry in each]
        counters = {key for entry in each for key, value in entry.items()
                    if isinstance(value, (int, float)) and key not in _OWN_FIELDS}
        runs[name] = Run(
            rates=rates,
            cpu_rates=[rate * entry["real_time"] / max(entry["cpu_time"], 1e-12)
                       for rate, entry in zip(rates, each)],
            real_seconds=[entry["real_time"] * _UNITS[entry["time_unit"]] for entry in each],
            counters={key: statistics.median(entry[key] for entry in each) for key in counters})
    return runs
