"""Files of results, in the form that `bedload-bench report` reads."""

from __future__ import annotations

import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

Samples = dict[tuple[str, str], list[float]]
"""Measured values of each subject and metric."""


def write(path: Path, rows: int, samples: Samples, units: dict[str, str], note: str) -> None:
    """Write medians and extremes behind a line that says what was measured where.

    Metrics that `units` does not name are milliseconds.
    """
    origin = {
        "command": "python " + shlex.join(arguments()),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M"),
        "commit": commit(),
        "machine": machine(),
        "note": note,
    }
    baseline = next(iter(samples))[0]
    with path.open("w") as file:
        print(json.dumps(origin, separators=(",", ":")), file=file)
        for (subject, metric), values in samples.items():
            record = {
                "scenario": path.stem,
                "subject": subject,
                "metric": metric,
                "unit": units.get(metric, "ms"),
                "median": statistics.median(values),
                "min": min(values),
                "max": max(values),
                "rounds": len(values),
                "baseline": baseline,
                "ratio": ratio(samples, baseline, subject, metric),
                "params": {"rows": str(rows)},
            }
            print(json.dumps(record, separators=(",", ":")), file=file)


def ratio(samples: Samples, baseline: str, subject: str, metric: str) -> float:
    of_baseline = samples.get((baseline, metric), samples[subject, metric])
    return statistics.median(samples[subject, metric]) / statistics.median(of_baseline)


def arguments() -> list[str]:
    """The command line from this directory's parent, without the note and where results go."""
    left = [os.path.join("bench", os.path.basename(sys.argv[0]))]
    given = iter(sys.argv[1:])
    for argument in given:
        if argument in ("--results", "--note"):
            next(given)
        else:
            left.append(argument)
    return left


def commit() -> str:
    """The revision of the code, with a suffix if sources differ from it."""
    revision = told("git", "rev-parse", "--short=12", "HEAD")
    top = told("git", "rev-parse", "--show-toplevel")
    changed = told("git", "-C", top, "status", "--porcelain", "--", "Cargo.lock", "crates", ":!crates/bench/results")
    return revision + ("-dirty" if changed else "")


def machine() -> str:
    """Processor, memory and system."""
    model = field("/proc/cpuinfo", "model name")
    memory = int(field("/proc/meminfo", "MemTotal").removesuffix(" kB")) >> 20
    return f"{os.cpu_count()} processors of {model}, {memory} GiB, Linux {platform.release()}"


def field(path: str, name: str) -> str:
    lines = Path(path).read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(name))


def told(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
